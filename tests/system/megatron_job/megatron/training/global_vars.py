"""The arguments and the signal handler of this process."""
import signal

import torch
import torch.distributed as distributed

_ARGS = None
_SIGNALS = None


class DistributedSignalHandler:
    """Remembers that a signal came; ranks agree on it between two iterations."""

    def __init__(self):
        self._received = False
        signal.signal(signal.SIGTERM, self._receive)

    def _receive(self, number, frame):
        self._received = True

    def signals_received(self):
        both = [torch.zeros(1) for _ in range(distributed.get_world_size())]
        distributed.all_gather(both, torch.tensor([float(self._received)]))
        return [bool(one.item()) for one in both]


def set_global_variables(args):
    global _ARGS, _SIGNALS
    _ARGS = args
    _SIGNALS = DistributedSignalHandler() if args.exit_signal_handler else None


def get_args():
    return _ARGS


def get_signal_handler():
    return _SIGNALS
