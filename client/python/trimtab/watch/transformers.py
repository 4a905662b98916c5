"""transformers' Trainer: its callbacks say where a step begins and ends, and its state which one it is."""
import functools

from .account import ASIDE
from .facts import facts
from .losses import losses
from .session import session
from .wrapping import as_part, replace

_WHO = "transformers"


def callbacks_loaded(module):
    """All that tell of a step's progress go through one class, whatever of Trainer a script has overridden."""
    handler = module.CallbackHandler
    handler.on_step_begin = _first(_begins, handler.on_step_begin)
    handler.on_step_end = _first(_ends, handler.on_step_end)
    replace(handler, "on_log", _aside)


def trainer_loaded(module):
    for name in ("evaluate", "predict", "_save_checkpoint"):
        replace(module.Trainer, name, _aside)


def _aside(plain):
    return as_part(plain, ASIDE)


def _first(ours, plain):
    @functools.wraps(plain)
    def watched(handler, args, state, *others, **named):
        with session.guard("the hook of transformers' Trainer"):
            ours(args, state)
        return plain(handler, args, state, *others, **named)

    return watched


def _begins(args, state):
    session.begins(state.global_step)
    session.take_over(_WHO)
    losses.are_shares = True
    facts.made_with(_WHO)
    size = getattr(state, "train_batch_size", None) or args.train_batch_size  # The state's is what auto_find_batch_size has found.
    facts.by_framework.update(batch_size=int(size), accumulation=int(args.gradient_accumulation_steps))


def _ends(_args, _state):
    session.ends(_WHO)
