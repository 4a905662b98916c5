"""Exposed waiting in collectives: Work.wait, in which every collective of torch.distributed that is not async ends.

Under it, not above: torch.compile knows dist.all_reduce and the others by identity. DDP waits in C++ (backward.py sees that).
What DTensor waits for, and what compiled code waits for, is not seen.
"""
from .account import COMMUNICATION
from .session import session
from .wrapping import as_part, replace


def distributed_loaded(module):
    if not module.is_available():
        return
    from torch._C import _distributed_c10d as c10d

    replace(c10d.Work, "wait", lambda plain: as_part(plain, COMMUNICATION, "comm/wait"))
    # DDP's buffers, before its forward pass.
    replace(module, "_broadcast_coalesced", lambda plain: as_part(plain, COMMUNICATION, "comm/broadcast"))
    session.distributed = module


def stages_loaded(module):
    """Megatron Core's stages send to each other in many small calls, which take a host about as long as what they wait for."""
    replace(getattr(module, "P2PCommunicator", module), "_communicate", lambda plain: as_part(plain, COMMUNICATION))
