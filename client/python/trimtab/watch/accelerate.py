"""accelerate: its loaders give each rank its share of a batch, and the Accelerator knows accumulation and precision.

Its optimizers leave out the steps of microbatches before the last, and then call none of PyTorch's: those end steps.
"""
import functools

from .account import ASIDE, DATA
from .facts import facts
from .loaders import batches
from .session import session

_WHO = "accelerate"
_TYPES = {"bf16": "bfloat16", "fp16": "float16"}


def accelerator_loaded(module):
    accelerator = module.Accelerator
    plain = accelerator.backward

    @functools.wraps(plain)
    def backward(self, *arguments, **named):
        with session.guard("accelerate's hook"):
            _know(self)
        return plain(self, *arguments, **named)

    accelerator.backward = backward


def _know(accelerator):
    facts.made_with(_WHO)
    known = facts.by_framework
    if accelerator.gradient_accumulation_steps > 1:  # With 1 a script may accumulate by itself.
        known["accumulation"] = int(accelerator.gradient_accumulation_steps)
    if accelerator.mixed_precision in _TYPES:
        known["dtype"] = _TYPES[accelerator.mixed_precision]


def loaders_loaded(module):
    for name in ("DataLoaderShard", "DataLoaderDispatcher"):
        loader = getattr(module, name, None)
        if loader is not None:
            loader.__iter__ = _watched(module.torch, loader.__iter__)


def _watched(torch, plain):
    """They read a batch ahead, and send batches between ranks: what they give to the script is what it takes."""

    @functools.wraps(plain)
    def __iter__(self):
        iterator = plain(self)
        try:
            while True:
                depth = session.enter(DATA if torch.is_grad_enabled() else ASIDE)
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
                finally:
                    session.leave(depth)
                if depth and torch.is_grad_enabled() and not session.inside(ASIDE):
                    with session.guard("accelerate's hook"):
                        batches.given(batch)
                yield batch
        finally:
            iterator.close()

    return __iter__
