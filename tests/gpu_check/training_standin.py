"""A training process on a GPU that is not there: the real injected library, a scripted libcupti, and steps whose times are made
up. A step takes BASE_NS with some noise, and longer by `planted` of that where its kernels were recorded.

    training_standin.py SETTINGS      in the environment of a rank, FAKE_CUDA and FAKE_CUPTI_LIBRARY beside it
"""
import ctypes
import json
import os
import random
import sys
import time

BASE_NS, PACE_S, KERNEL, LAUNCHES = 3_000_000, 0.004, 10, 10


class Work(ctypes.Structure):
    """FakeWork of tests/collectors/fakes/fake_cupti.h."""

    _fields_ = [("kind", ctypes.c_uint32), ("stream", ctypes.c_uint32), ("detail", ctypes.c_uint32), ("bytes", ctypes.c_uint64),
                ("start_ns", ctypes.c_uint64), ("end_ns", ctypes.c_uint64), ("name", ctypes.c_char_p)]


class Device:
    def __init__(self):
        if ctypes.CDLL(os.environ["FAKE_CUDA"]).cuInit(0) != 0:
            sys.exit("the scripted driver could not load the library")
        self._cupti = ctypes.CDLL(os.environ["FAKE_CUPTI_LIBRARY"])
        self._ranges = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
        self._ranges.trimtab_range_push.argtypes = [ctypes.c_char_p, ctypes.c_int64]

    def records(self):
        return bool(self._cupti.fake_enabled(KERNEL))

    def step(self, number):
        """Whether any of its kernels may have been recorded."""
        before = self.records()
        self._ranges.trimtab_range_push(b"step", number)
        for _ in range(LAUNCHES):
            now = time.time_ns()
            self._cupti.fake_launch(ctypes.byref(Work(kind=KERNEL, stream=7, detail=64, start_ns=now, end_ns=now + 1000, name=b"gemm")))
        time.sleep(PACE_S)
        self._ranges.trimtab_range_pop()
        return self.records() or before


def main():
    settings = json.loads(sys.argv[1])
    device, generator = Device(), random.Random(settings["seed"])
    steps, until = [], time.time_ns() + settings["seconds"] * 1e9
    while time.time_ns() < until:
        begin = time.time_ns()
        recorded = device.step(len(steps))
        steps.append((begin, begin + round(BASE_NS * generator.gauss(1, settings["noise"]) * (1 + settings["planted"] * recorded))))
    print(json.dumps({"steps": steps}))


if __name__ == "__main__":
    main()
