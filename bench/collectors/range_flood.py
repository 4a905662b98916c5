"""What a range around every microsecond of work costs: the same work with ranges, and between calls that do nothing, in turn, in one
process, by processor time. Beside it the same calls into an empty library. Prints a Markdown table.

    range_flood.py BUILD [RUNS]      BUILD: build/release
"""
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading

EMPTY = """#include <stdint.h>
void trimtab_range_push(const char* name, int64_t payload) { (void)name, (void)payload; }
void trimtab_range_pop(void) {}
int trimtab_range_active(void) { return 0; }
uint64_t trimtab_dropped(void) { return 0; }
"""
MILLISECONDS = 5000


def take_rings(path):
    """An agent that takes rings and never reads them."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(8)
    held = []

    def take():
        connection, _ = listener.accept()
        held.extend([connection, connection.recvmsg(4096, 4096)])
    threading.Thread(target=take, daemon=True).start()
    return listener, held


def cost(build, library, agent, budget=None):
    """Per cent, and ranges a second of the work alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "agent.sock"
        held = take_rings(path) if agent else None
        environment = {**os.environ, "TRIMTAB_SOCKET": str(path), "TRIMTAB_LIBRARY": str(library), "TRIMTAB_JOB": "flood", "TRIMTAB_RANK": "0"}
        if budget:
            environment["TRIMTAB_BUDGET"] = budget
        told = subprocess.run([build / "bin" / "ranges_program", f"cost:{MILLISECONDS}"], env=environment, capture_output=True, text=True,
                              check=True).stdout.split()
        del held
    return float(told[1]), float(told[2])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    ours = build / "lib" / "libtrimtab-inject.so"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "empty.c"
        source.write_text(EMPTY)
        empty = pathlib.Path(folder) / "libempty.so"
        subprocess.run([shutil.which("cc"), "-O2", "-shared", "-fPIC", "-o", empty, source], check=True)
        print("| library | ranges/s | cost, %: median | lowest | highest |\n| --- | --- | --- | --- | --- |")
        for name, words in (("an empty one", (empty, False)), ("ours, no agent there", (ours, False)), ("ours, default budget", (ours, True)),
                            ("ours, every range (TRIMTAB_BUDGET=1)", (ours, True, "1"))):
            told = [cost(build, *words) for _ in range(runs)]
            costs = [one for one, _ in told]
            rate = statistics.median(rate for _, rate in told)
            print(f"| {name} | {rate:,.0f} | {statistics.median(costs):.2f} | {min(costs):.2f} | {max(costs):.2f} |", flush=True)


if __name__ == "__main__":
    main()
