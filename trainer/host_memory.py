"""What waits on the host between its uses (H3T's switches `offload_hidden` and `offload_optimizer`).

On a GPU copies go through pinned memory on two streams of their own, one each way, beside computation; what was copied
out is freed on the device as soon as the copy is done. On a CPU the host's memory is the device's own: the same calls
copy, so that the path is tried, and save nothing. Main thread only.
"""
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


def host_tensor(rows, columns, device):
    """Unset, for states that are kept on the host; pinned where a device copies them."""
    return torch.empty(rows, columns, pin_memory=device.type == "cuda")
