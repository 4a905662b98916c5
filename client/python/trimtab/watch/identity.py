"""Which rank this process is. Trimtab has not launched it, so its launcher's variables say it, or PyTorch does."""
import os
import sys
from typing import NamedTuple, Optional

# Of torchrun and those like it; srun (a shell inside an allocation has no step); Open MPI; PMIx and MPICH.
_LAUNCHERS = (
    (("RANK",), ("WORLD_SIZE",), ("LOCAL_RANK",), None),
    (("SLURM_PROCID",), ("SLURM_NTASKS", "SLURM_STEP_NUM_TASKS"), ("SLURM_LOCALID",), "SLURM_STEP_ID"),
    (("OMPI_COMM_WORLD_RANK",), ("OMPI_COMM_WORLD_SIZE",), ("OMPI_COMM_WORLD_LOCAL_RANK",), None),
    (("PMI_RANK", "PMIX_RANK"), ("PMI_SIZE",), ("MPI_LOCALRANKID",), None),
)


class Identity(NamedTuple):
    rank: int = 0
    world_size: int = 1
    local_rank: Optional[int] = None
    launch: int = 1


def initialized_distributed(modules=sys.modules):
    """torch.distributed where the job has loaded it and has its process group; else None."""
    distributed = modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed


def identity(environment=os.environ, modules=sys.modules):
    """By torch.distributed where it is initialised, else by the launcher's variables, else the only rank."""
    launch = (_number(environment, ("TORCHELASTIC_RESTART_COUNT",)) or 0) + 1
    found = _launched(environment) or Identity()
    distributed = initialized_distributed(modules)
    if distributed is not None:
        found = found._replace(rank=distributed.get_rank(), world_size=distributed.get_world_size())
    return found._replace(launch=launch)


def own_identity(environment=os.environ):
    """Of a process that its user launched. None: Trimtab's agent has launched it, and knows who it is."""
    return None if environment.get("TRIMTAB_LAUNCH") else identity(environment)


def _launched(environment):
    for ranks, sizes, places, needed in _LAUNCHERS:
        if needed is not None and needed not in environment:
            continue
        rank, size = _number(environment, ranks), _number(environment, sizes)
        if rank is not None and size is not None and rank < size:
            return Identity(rank, size, _number(environment, places))
    return None


def _number(environment, names):
    for name in names:
        text = environment.get(name, "")
        if text.isascii() and text.isdigit():
            return int(text)
    return None
