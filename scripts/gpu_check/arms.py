"""What is compared: a process without Trimtab, and with more and more of it. One process is one run."""

BARE, BARE_AGAIN = "bare", "bare again"
LEAST_PAIRS = 10
GUARDED = "guarded"
LIMIT = 0.005  # What the guarded arm may cost: the default budget.


def _injected(library, *, ranges=True, nccl=False, **more):
    environment = {"CUDA_INJECTION64_PATH": str(library)}
    if ranges:
        environment["NVTX_INJECTION64_PATH"] = str(library)
    if nccl:
        environment["NCCL_PROFILER_PLUGIN"] = str(library.with_name("libnccl-profiler-trimtab.so"))
    return {**environment, **more}


# A budget of the whole step: what the collector costs before it holds itself back.
_UNHELD = {"TRIMTAB_BUDGET": "1"}

ARMS = {
    BARE: (lambda library: {}, "no injection"),
    "injected idle": (lambda library: _injected(library, TRIMTAB_CUPTI="0"), "loaded, ranges only, CUPTI off"),
    "kernels only": (lambda library: _injected(library, ranges=False, **_UNHELD), "kernels and copies, no ranges"),
    "full": (lambda library: _injected(library, TRIMTAB_GRAPHS="nodes", **_UNHELD), "and ranges, kernels inside graphs"),
    "full + KernelCh": (lambda library: _injected(library, nccl=True, TRIMTAB_GRAPHS="nodes", TRIMTAB_NCCL_DETAIL="full",
                                                       **_UNHELD), "and NCCL's profiler plugin"),
    GUARDED: (lambda library: _injected(library, nccl=True), "everything, held to the default budget"),
    BARE_AGAIN: (lambda library: {}, "no injection: the noise floor"),
}


def environment(arm, library, socket):
    """What the arm adds to the environment; nothing else of Trimtab may be in it."""
    added = ARMS[arm][0](library)
    return {**added, "TRIMTAB_SOCKET": str(socket)} if added else {}


def plugin(library, socket):
    """NCCL's profiler plugin alone, as ranks have it that an agent starts."""
    return {**_injected(library, ranges=False, nccl=True, TRIMTAB_CUPTI="0", TRIMTAB_NCCL_DETAIL="sampled"),
            "TRIMTAB_SOCKET": str(socket)}


def cleared(inherited):
    """The environment without anything of ours."""
    ours = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "NCCL_TUNER_PLUGIN")
    return {name: value for name, value in inherited.items() if not name.startswith("TRIMTAB") and name not in ours}


def own_host(rank):
    """What makes NCCL take a rank that shares its GPU with others for one on a host of its own, and leave room to them."""
    return {"NCCL_HOSTID": f"gpu-check-{rank}", "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1",
            "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_CTAS": "2"}


def order(names, round_number):
    """A, B, …, A again, then the same backwards in the next round, so that a drift hurts all alike."""
    return list(names) if round_number % 2 == 0 else list(reversed(names))
