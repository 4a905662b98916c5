"""What waits on the host between its uses (H3T's switches `offload_hidden`, `offload_optimizer` and `lazy_prefetch`).

On a GPU copies go through pinned memory on two streams of their own, one each way, beside computation; what was copied
out is freed on the device as soon as the copy is done. On a CPU the host's memory is the device's own: the same calls
copy, so that the path is tried, and save nothing. Main thread only.
"""
import contextlib

import torch


class Hidden:
    """An activation that waits on the host. fetch() early, then get() once."""

    def __init__(self, host, shape_of, away, streams):
        self._host, self._device, self._streams = host, shape_of.device, streams
        self._away = away  # The event at which the copy out is complete; None on a CPU.
        self._fetched = None

    def fetch(self):
        """Begin to bring it back."""
        if self._fetched is None:
            self._fetched = self._streams.bring(self._host, self._device, self._away)

    def get(self):
        """The tensor on the device again, whose present stream may use it from here on."""
        self.fetch()
        tensor, there = self._fetched
        self._host = self._fetched = None
        if there is not None:
            torch.cuda.current_stream(self._device).wait_event(there)
            tensor.record_stream(torch.cuda.current_stream(self._device))
        return tensor


class Fetched:
    """A tensor that is on its way to the device, and stays on the host too."""

    def __init__(self, tensor, there):
        self.tensor, self._there = tensor, there  # The event at which it is complete; None on a CPU.

    def wait(self):
        """The device's present stream may use it from here on, and it may be freed behind that."""
        if self._there is not None:
            computing = torch.cuda.current_stream(self.tensor.device)
            computing.wait_event(self._there)
            self.tensor.record_stream(computing)


class Leaving:
    """A tensor on its way to the host, perhaps behind a collective whose result it is."""

    def __init__(self, tensor, work, away):
        self._tensor, self._work, self._away = tensor, work, away

    @property
    def ready(self):
        """Does get() not wait for a copy? On a CPU it waits for the collective alone."""
        return self._away is None or self._away.query()

    def get(self):
        """The tensor on the host, complete. On a CPU it is the tensor itself."""
        if self._away is not None:
            self._away.synchronize()
        elif self._work is not None:
            self._work.wait()
        return self._tensor


class HostCopies:
    """One rank's copies to and from the host. One for each pipeline."""

    def __init__(self, device):
        self._out = self._back = None
        if device.type == "cuda":
            self._out, self._back = torch.cuda.Stream(device), torch.cuda.Stream(device)

    def put(self, tensor):
        """Copy it out; the caller drops its own reference."""
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=self._out is not None)
        if self._out is None:
            host.copy_(tensor)
            return Hidden(host, tensor, None, self)
        self._out.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self._out):
            host.copy_(tensor, non_blocking=True)
            away = torch.cuda.Event()
            away.record(self._out)
        tensor.record_stream(self._out)
        return Hidden(host, tensor, away, self)

    def leave(self, tensor, work):
        """Begin to bring it to the host, behind the collective `work` or, if that is None, behind what computes now."""
        if self._out is None:
            return Leaving(tensor, work, None)
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        if work is None:
            self._out.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self._out):
            if work is not None:
                work.wait()
            host.copy_(tensor, non_blocking=True)
            away = torch.cuda.Event()
            away.record(self._out)
        tensor.record_stream(self._out)
        return Leaving(host, None, away)

    def fetch(self, host, device, onto=None):
        """Begin to copy what stays on the host to `onto`, or to a new tensor: Fetched. Not before what computes now."""
        if self._back is None:
            tensor = torch.empty_like(host) if onto is None else onto
            return Fetched(tensor.copy_(host), None)
        self._back.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(self._back):
            tensor = torch.empty(host.shape, dtype=host.dtype, device=device) if onto is None else onto
            tensor.copy_(host, non_blocking=True)
            there = torch.cuda.Event()
            there.record(self._back)
        return Fetched(tensor, there)

    def behind_fetches(self):
        """In this context a collective begins behind what was fetched and behind what computes now, and no later."""
        if self._back is None:
            return contextlib.nullcontext()
        self._back.wait_stream(torch.cuda.current_stream(self._back.device))
        return torch.cuda.stream(self._back)

    def join(self):
        """Computation waits for all copies that were begun, and copies yet to come for computation."""
        if self._out is None:
            return
        computing = torch.cuda.current_stream(self._out.device)
        for stream in (self._out, self._back):
            computing.wait_stream(stream)
            stream.wait_stream(computing)

    def bring(self, host, device, away):
        """(tensor on the device, the event at which it is complete or None)."""
        if self._back is None:
            return host, None
        with torch.cuda.stream(self._back):
            self._back.wait_event(away)
            tensor = torch.empty(host.shape, dtype=host.dtype, device=device)
            tensor.copy_(host, non_blocking=True)
            there = torch.cuda.Event()
            there.record(self._back)
        return tensor, there


def host_tensor(shape, device):
    """Unset, for states that are kept on the host; pinned where a device copies them."""
    return torch.empty(shape, pin_memory=device.type == "cuda")
