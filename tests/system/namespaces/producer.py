"""A training process in miniature, with the injected library as the Python client loads it: ranges under some names, in
turn, until its input ends. A line `names N` on its input makes it push N other names, a few times each. In the end it says what
it recorded: {"pushed": N, "dropped": N, "counted": N}, the last without the first two of each name, which agents leave out.

Usage: producer.py PREFIX RATE (ranges a second)
"""
import ctypes
import json
import os
import select
import sys
import time

NAMES = 8
TIMES = 4  # that each name of a burst is pushed
LEFT_OUT = 2  # of each name: it warms up


def main():
    prefix, rate = sys.argv[1], float(sys.argv[2])
    library = ctypes.CDLL(os.environ["TRIMTAB_LIBRARY"])
    library.trimtab_range_push.argtypes = (ctypes.c_char_p, ctypes.c_int64)
    library.trimtab_dropped.restype = ctypes.c_uint64
    pushed = turns = 0

    def record(name):
        library.trimtab_range_push(name.encode(), 1)
        library.trimtab_range_pop()

    while not library.trimtab_range_active():  # no agent yet: nothing would be recorded
        time.sleep(0.02)
    print("active", flush=True)
    largest = 0
    while True:
        if select.select([sys.stdin], [], [], 1 / rate)[0]:
            words = sys.stdin.readline().split()
            if not words:
                break
            largest = max(largest, int(words[1]))
            for number in range(int(words[1]) * TIMES):
                record(f"{prefix}/burst {number // TIMES} {'x' * 60}")
            pushed += int(words[1]) * TIMES
        record(f"{prefix}/{turns % NAMES}")
        turns += 1
        pushed += 1
    counted = pushed - LEFT_OUT * largest - min(turns, LEFT_OUT * NAMES)
    print(json.dumps({"pushed": pushed, "dropped": library.trimtab_dropped(), "counted": counted}), flush=True)


if __name__ == "__main__":
    main()
