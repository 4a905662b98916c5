"""The tuner is a pure library: its archive must not reach for clocks, threads, files, sockets or random devices.

Usage: check_purity.py ARCHIVE. Reads the undefined symbols with nm; exits 1 naming each forbidden one.
"""

import re
import subprocess
import sys

FORBIDDEN = re.compile(
    r"(_clock::now|clock_gettime|gettimeofday|\btime$|_M_start_thread|pthread_create|random_device"
    r"|basic_[io]?fstream|\bfopen|\bopen(at|64)?$|\bsocket$|\bconnect$|\bgetenv|std::cout|std::cerr|\bprintf|\bputs$|\brand$)"
)


def main():
    names = subprocess.run(["nm", "-C", "-u", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    undefined = [line.split(" U ", 1)[-1].split("@")[0].strip() for line in names.splitlines() if " U " in line]
    if not undefined:
        sys.exit(f"{sys.argv[1]} has no undefined symbols at all: is it the right archive?")
    found = sorted({name for name in undefined if FORBIDDEN.search(name)})
    for name in found:
        print(f"the tuner must not use {name}")
    print(f"{len(undefined)} undefined symbols looked at, {len(found)} forbidden")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
