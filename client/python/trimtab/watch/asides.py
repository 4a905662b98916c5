"""Checkpoints: what is written between steps is no part of a step's work."""
from .account import ASIDE
from .optimizers import only_state
from .wrapping import as_part, replace


def serialization_loaded(module):
    replace(module, "save", _aside)


def saver_loaded(module):
    for name in ("save", "async_save", "save_state_dict"):
        replace(module, name, _aside)


def states_loaded(module):
    """An optimizer that has not stepped does so with gradients of zero, so that a checkpoint finds its state: PyTorch's, torchtitan's."""
    for name in ("_init_optim_state", "init_optim_state"):
        replace(module, name, only_state)


def safetensors_loaded(module):
    replace(module, "save_file", _aside)


def _aside(plain):
    return as_part(plain, ASIDE)
