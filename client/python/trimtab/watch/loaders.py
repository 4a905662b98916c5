"""DataLoader: the time that training waits for its next batch, and how large the batch is."""
import functools
import weakref

from .account import ASIDE, DATA
from .session import session


class Batches:
    """What the step under way has taken: as its framework gave it, or from loaders, or what went into the model."""

    def __init__(self):
        self.loader = lambda: None  # The iterator that gave the last batch.
        self.sequence_length = 0
        self._given = [0, 0]  # Samples and tokens.
        self._of_loader = [0, 0]
        self._of_model = [0, 0]
        self._last = None  # What was added last, to which sums.

    def loaded(self, batch, iterator):
        self._add(self._of_loader, batch)
        self.loader = weakref.ref(iterator)

    def given(self, batch):
        """A framework hands the batch to training. It may have loaded it long before."""
        self._add(self._given, batch)

    def computed(self, inputs):
        self._add(self._of_model, inputs)

    def _add(self, sums, batch):
        tensor = first_tensor(batch)
        if tensor is None or not tensor.dim():
            return
        shape = tensor.shape
        tokens = 0
        if len(shape) == 2 and not tensor.is_floating_point() and shape[1] > 1:
            self.sequence_length = int(shape[1])
            tokens = tensor.numel()
        self._last = sums, int(shape[0]), tokens
        sums[0] += int(shape[0])
        sums[1] += tokens

    def evaluated(self):
        """The last batch went through the model without gradients: it is not trained on."""
        if self._last is not None:
            (sums, samples, tokens), self._last = self._last, None
            sums[0] -= samples
            sums[1] -= tokens

    def take(self):
        self._last = None
        taken = (self._given, self._of_loader, self._of_model)
        samples, tokens = next((sums for sums in taken if sums[0]), (0, 0))
        self._given, self._of_loader, self._of_model = [0, 0], [0, 0], [0, 0]
        return {name: value for name, value in (("count", samples), ("tokens", tokens)) if value}


batches = Batches()
session.collect(batches.take)


def first_tensor(batch, depth=3):
    """Of a batch's tensors the first; that of `input_ids` before all."""
    if hasattr(batch, "is_floating_point"):
        return batch
    if depth == 0:
        return None
    if hasattr(batch, "keys"):
        if "input_ids" in batch:
            return batch["input_ids"]
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for value in batch[:8]:
            tensor = first_tensor(value, depth - 1)
            if tensor is not None:
                return tensor
    return None


def dataloader_loaded(module):
    torch = module.torch
    plain_next, plain_iter = module._BaseDataLoaderIter.__next__, module.DataLoader.__iter__

    def part():
        """An evaluation reads its batches where no gradient is wanted."""
        return DATA if torch.is_grad_enabled() else ASIDE

    @functools.wraps(plain_next)
    def __next__(self):
        waits_for = part()
        depth = session.enter(waits_for, "data" if waits_for == DATA else None)
        try:
            batch = plain_next(self)
        finally:
            session.leave(depth)
        if depth and torch.is_grad_enabled() and not session.inside(ASIDE):
            with session.guard("the loader's hook"):
                batches.loaded(batch, self)
        return batch

    @functools.wraps(plain_iter)
    def __iter__(self):
        """Workers start here, or the first batches are ordered."""
        depth = session.enter(part())
        try:
            return plain_iter(self)
        finally:
            session.leave(depth)

    module._BaseDataLoaderIter.__next__ = __next__
    module.DataLoader.__iter__ = __iter__
