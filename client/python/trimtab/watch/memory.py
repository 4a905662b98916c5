"""What this rank has taken of its device's memory at its peak, and how much there is."""
import os


def memory(torch):
    """Bytes that were used at the peak, and that there are: of the GPU where the process uses one, else of the host."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        return {"memory_used_bytes": torch.cuda.max_memory_allocated(device),
                "memory_total_bytes": torch.cuda.get_device_properties(device).total_memory}
    known = {"memory_used_bytes": _line("/proc/self/status", "VmHWM:"), "memory_total_bytes": _host_share()}
    return {name: value for name, value in known.items() if value}


def _host_share():
    """Of what this process may use with its control group, the part of one of the node's ranks."""
    total = _line("/proc/meminfo", "MemTotal:")
    limit = _first_line("/sys/fs/cgroup/memory.max")
    if limit.isdigit():
        total = min(total or int(limit), int(limit))
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    return total // max(1, int(ranks)) if ranks.isdigit() else total


def _line(path, name):
    try:
        with open(path, encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith(name):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _first_line(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""
