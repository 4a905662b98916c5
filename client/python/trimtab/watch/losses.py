"""The loss of a step, without waiting for a GPU.

Of a tensor on the CPU it is read at once. Of one on a CUDA device a copy is queued, and read a step later if it is there by
then. A GPU's step is so told with the loss of the step before.
"""
import math
import sys

# Of a loss that its script has divided by the number of microbatches: their sum is the step's loss, otherwise their mean.
_DIVIDED = ("DivBackward0", "MulBackward0")


class Losses:
    def __init__(self):
        self._scaled = (None, None)
        self.instead = None  # Of the next backward pass: a framework begins it at what it has made of this.
        self._values = []
        self._on_device = None
        self._divided = False
        self.by_framework = False  # It tells the loss itself, and backward passes of a pipeline's stages begin at no loss.
        self.are_shares = False  # A framework divides a step's loss among its microbatches.
        self._buffer = self._event = None

    def unscaled(self, scale):
        """GradScaler.scale, which remembers what it has scaled: the loss is that, not its product."""

        def watched_scale(scaler, *arguments, **named):
            scaled = scale(scaler, *arguments, **named)
            self._scaled = (scaled, next(iter((*arguments, *named.values())), None))
            return scaled

        watched_scale.__wrapped__ = scale
        watched_scale.__name__, watched_scale.__qualname__ = scale.__name__, scale.__qualname__
        watched_scale.__doc__, watched_scale.__module__ = scale.__doc__, scale.__module__
        return watched_scale

    def add(self, tensor):
        """A backward pass begins at `tensor`."""
        if self.by_framework:
            return
        scaled, loss = self._scaled
        if self.instead is not None:
            tensor, self.instead = self.instead, None
        elif scaled is not None:
            self._scaled = (None, None)
            if scaled is tensor:
                tensor = loss
        if tensor.numel() != 1:
            return
        function = tensor.grad_fn
        self._divided = self.are_shares or (function is not None and function.name() in _DIVIDED)
        kind = tensor.device.type
        if kind == "cpu":
            self._values.append(tensor.item())
        elif kind == "cuda" and not sys.modules["torch"].cuda.is_current_stream_capturing():
            value = tensor.detach()
            self._on_device = [value, 1] if self._on_device is None else [self._on_device[0] + value, self._on_device[1] + 1]

    def take(self):
        """The loss of the step that ends, or None."""
        if self._on_device is not None:
            return self._queue()
        values, self._values = self._values, []
        if not values:
            return None
        return math.fsum(values) / (1 if self._divided else len(values)) if all(map(math.isfinite, values)) else values[-1]

    def _queue(self):
        torch = sys.modules["torch"]
        (value, count), self._on_device = self._on_device, None
        if self._buffer is None:
            self._buffer = torch.empty((), dtype=torch.float32, pin_memory=True)
            self._event = torch.cuda.Event()
            before = None
        else:
            before = self._buffer.item() if self._event.query() else None
        value = value.float() / (1 if self._divided else count)
        self._buffer.copy_(value, non_blocking=True)
        self._event.record()
        return before


losses = Losses()
