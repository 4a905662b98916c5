"""Memory of one rank: what it holds now and the most it held since a mark.

On a CPU the peak is VmHWM, which writing 5 to /proc/self/clear_refs sets back to the present (Linux, own process, no
privilege). Where that does not work (some sandboxes ignore the write) the peak is the largest resident size seen at
the fixed points where sample() is called, and misses what happens between them.

On a GPU it is what PyTorch's allocator has handed out, and with it what the device lost beside the allocator: the
context, libraries, NCCL. The latter is read when a mark is set, and contains what other processes hold on that device.
What the allocator keeps in reserve is not counted: it gives that back before it fails.

A limit is held twice: the peak is compared with it after each step, and between two marks an allocation that goes
beyond it fails (limit_allocations), so that a plan cannot take the machine's memory in the middle of a step.
"""
import ctypes
import gc
import os
import resource

import torch

# glibc's mallopt() parameters. Its defaults hand each large tensor back to the system when it is freed, and the page
# faults of getting it again take a third of a step. Freed memory stays in the heap until release_unused() instead.
#
# One heap for all threads: under load each would make one of its own, and the peak of the same plan would differ from run
# to run by tens of MiB, which a limit must not.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_MMAP_THRESHOLD_BYTES = 32 << 20  # The most that glibc accepts.
_TRIM_THRESHOLD_BYTES = 1 << 30

_PAGE = os.sysconf("SC_PAGE_SIZE")
_DATA_LIMIT = resource.getrlimit(resource.RLIMIT_DATA)[0]  # What the process was started with.
_GROWTH_BYTES = 1 << 20  # The kernel adds up resident pages in batches, of each thread.
_ROOM_BYTES = 48 << 20  # For stacks of threads and what libraries map once: mapped, hardly ever resident.


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE


def _status_bytes(name):
    """One of the sizes in proc(5)'s status file."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next((int(line.split()[1]) * 1024 for line in file if line.startswith(name + ":")), 0)


def _reset_high_water():
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


def _allocator(function, *arguments):
    try:
        getattr(ctypes.CDLL(None), function)(*arguments)
    except (AttributeError, OSError):
        pass  # Another C library; its allocator decides.


def keep_freed_memory():
    """Let the allocator reuse large blocks, from one heap. Call it before the first tensor and the first thread."""
    _allocator("mallopt", _M_ARENA_MAX, 1)
    _allocator("mallopt", _M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
    _allocator("mallopt", _M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)


def give_back_freed():
    """Let the allocator return freed memory to the system, in the middle of its heap too."""
    _allocator("malloc_trim", 0)


def release_unused():
    """Give freed memory back to the system, so that what remains is what is held."""
    gc.collect()
    give_back_freed()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _bytes_beside_allocator(device):
    free, total = torch.cuda.mem_get_info(device)
    return max(0, total - free - torch.cuda.memory_reserved(device))


def is_out_of_memory(error):
    """Did an allocation fail, here or in a library?"""
    text = str(error)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "out of memory", "bad_alloc", "could not create a memory")))


def limit_allocations(limit_bytes, held_bytes, device):
    """From now on allocations fail that would take this process beyond its limit, of which `held_bytes` are taken.

    On a CPU by RLIMIT_DATA, which counts what is mapped and not what is resident: it is set from where the process
    stands, so it may let pass as much as the heap holds unused, and never refuses what is allowed. On a GPU by the
    caching allocator's own limit. Main thread.
    """
    left = max(0, limit_bytes - held_bytes)
    if device.type == "cuda":
        total = torch.cuda.get_device_properties(device).total_memory
        allowed = torch.cuda.memory_allocated(device) + left
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total), device)
        return
    wanted = _status_bytes("VmData") + left + _ROOM_BYTES
    _set_data_limit(wanted if _DATA_LIMIT == resource.RLIM_INFINITY else min(wanted, _DATA_LIMIT))


def lift_allocation_limit(device):
    """Until it is set again; any thread."""
    if device.type == "cuda":
        torch.cuda.set_per_process_memory_fraction(1.0, device)
    else:
        _set_data_limit(_DATA_LIMIT)


def _set_data_limit(soft):
    resource.setrlimit(resource.RLIMIT_DATA, (soft, resource.getrlimit(resource.RLIMIT_DATA)[1]))


class PeakMemory:
    """Main thread only."""

    def __init__(self, device):
        self._device = device
        self._sampled = 0
        self._beside_allocator = 0
        self._peak_before = 0
        self.resets = device.type == "cpu" and self._reset_works()

    @staticmethod
    def _reset_works():
        ballast = bytearray(32 << 20)
        ballast[:: _PAGE] = b"\1" * len(ballast[:: _PAGE])
        with_ballast = _status_bytes("VmHWM")
        del ballast
        return _reset_high_water() and _status_bytes("VmHWM") < with_ballast - (16 << 20)

    def mark(self):
        """Release what is free and count the peak from here on."""
        release_unused()
        if self._device.type == "cuda":
            self._beside_allocator = _bytes_beside_allocator(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
        elif self.resets:
            _reset_high_water()
        self._sampled = 0
        self.sample()
        self._peak_before = self.peak_bytes()

    def sample(self):
        if self._device.type == "cpu" and not self.resets:
            self._sampled = max(self._sampled, resident_bytes())

    def held_bytes(self):
        """What is held at this moment."""
        if self._device.type == "cuda":
            self._beside_allocator = _bytes_beside_allocator(self._device)
            return self._beside_allocator + torch.cuda.memory_allocated(self._device)
        return resident_bytes()

    def peak_bytes(self):
        if self._device.type == "cuda":
            return self._beside_allocator + torch.cuda.max_memory_allocated(self._device)
        if self.resets:
            return _status_bytes("VmHWM")
        self.sample()
        return self._sampled

    def grew(self, peak_bytes):
        """Is the peak, which is this, above what it was when asked last, or at the mark, by more than noise?

        On a CPU alone, where it means memory that was touched for the first time, whose page faults slow a step. A GPU's
        allocator counts what it takes from the driver itself.
        """
        before, self._peak_before = self._peak_before, peak_bytes
        return self._device.type == "cpu" and peak_bytes - before >= _GROWTH_BYTES
