"""Settings that must stand in the environment before PyTorch is loaded; import this module first.

OpenBLAS as Debian builds it does not recognise newer processors and falls back to kernels that are five times
slower, so its core type is chosen here from the processor's flags. One thread a rank: ranks are the parallelism.
"""
import os


def openblas_core_type(cpu_flags):
    """The OpenBLAS kernel family for these /proc/cpuinfo flags, or None to leave the choice to OpenBLAS."""
    if "avx512f" in cpu_flags:
        return "SkylakeX"
    if "avx2" in cpu_flags:
        return "Haswell"
    return None


def prepare(cpuinfo="/proc/cpuinfo"):
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as lines:
            flags = next((line for line in lines if line.startswith("flags")), "flags:").split(":", 1)[1].split()
    except OSError:
        return  # Not Linux, or hidden: a slower library is no reason to stop.
    core_type = openblas_core_type(flags)
    if core_type is not None:
        os.environ.setdefault("OPENBLAS_CORETYPE", core_type)


def pin(local_rank, ranks_on_node):
    """Bind this process to one core when every rank can have its own. Returns the core, or None."""
    try:
        cores = sorted(os.sched_getaffinity(0))
        if ranks_on_node > len(cores):
            return None
        core = cores[local_rank % len(cores)]
        os.sched_setaffinity(0, {core})
        return core
    except (AttributeError, OSError):
        return None


prepare()
