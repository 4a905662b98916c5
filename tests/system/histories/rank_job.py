"""The commands of jobs that train nothing, and a producer of ranges. Ranks write down which plan they are told, and each step.

`describe` and `benchmark` are those of the soak's job. `train ... --log DIRECTORY`. `produce`: a line `NAME COUNT` on its input has
it record that range so often, and is answered by `recorded N`; in the end it says how many found no room.
"""
import argparse
import ctypes
import hashlib
import json
import os
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))
import job as soak  # noqa: E402
import trimtab  # noqa: E402 (found by the soak's job)


class Neighbours(soak.Neighbours):
    """Also of ranks on several nodes, which meet at an address."""

    def __init__(self, rank, world_size, rendezvous):
        if not rendezvous.startswith("tcp://") or world_size == 1:
            super().__init__(rank, world_size, rendezvous)
            return
        self.rank, self.sockets = rank, []
        host, _, port = rendezvous.removeprefix("tcp://").rpartition(":")
        if rank == 0:
            with socket.create_server((host, int(port))) as server:
                server.settimeout(soak.PATIENCE_S)
                self.sockets = [self.bounded(server.accept()[0]) for _ in range(world_size - 1)]
            return
        deadline = time.monotonic() + soak.PATIENCE_S
        while not self.sockets:
            try:
                self.sockets.append(self.bounded(socket.create_connection((host, int(port)), timeout=1)))
            except OSError:
                if time.monotonic() > deadline:
                    sys.exit("rank 0 is not there")
                time.sleep(0.02)


class Log:
    """A line at a time, so that a rank that is killed has said what it did."""

    def __init__(self, directory, rank):
        who = {"job": os.environ["TRIMTAB_JOB"], "variant": os.environ.get("TRIMTAB_VARIANT", ""),
               "launch": int(os.environ.get("TRIMTAB_LAUNCH", 0)), "rank": rank, "pid": os.getpid(),
               "node": pathlib.Path(os.environ["TRIMTAB_SOCKET"]).stem}
        name = f"{who['job']}-{who['launch']}-{who['variant']}-{rank}-{os.getpid()}-{time.time_ns()}.jsonl"
        self._file, self._who = open(pathlib.Path(directory) / name, "a", buffering=1, encoding="utf-8"), who

    def write(self, kind, **facts):
        self._file.write(json.dumps({"at": time.monotonic(), "kind": kind, **self._who, **facts}) + "\n")


def hash_of(plan):
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()[:12] if plan else ""


def first_plan(path):
    return json.loads(pathlib.Path(path).read_text()) if path else None


def train(options):
    log, plan = Log(options.log, options.rank), first_plan(options.plan)
    client = trimtab.connect()
    neighbours = Neighbours(options.rank, options.world_size, options.rendezvous)
    pause = soak.step_seconds(plan) if plan else 0.01
    log.write("told", epoch=client.epoch, plan=hash_of(plan), step=0, incumbent=client.runs_incumbent, asked=None)
    for step in range(options.steps):
        begin = time.monotonic_ns()
        time.sleep(pause)
        log.write("step", step=step, epoch=client.epoch)
        client.step(step, wall_ns=time.monotonic_ns() - begin, cpu_ns=1000, loss=1.0 / (1 + step), samples=f"{step:x}",
                    peak_bytes=60 * soak.MIB)
        if neighbours.minimum(0 if client.stop_requested else 1) == 0:
            break
        asked = time.monotonic()
        change = client.next_plan(step + 1, neighbours.minimum)
        if change is not None:
            pause = soak.step_seconds(change.plan)
            client.activated(change.epoch, step + 1, switch_ns=int((time.monotonic() - asked) * 1e9), peak_bytes=60 * soak.MIB)
            log.write("told", epoch=change.epoch, plan=hash_of(change.plan), step=step + 1, incumbent=client.runs_incumbent, asked=asked)
    client.close()


def produce():
    library = ctypes.CDLL(os.environ["TRIMTAB_LIBRARY"])
    library.trimtab_range_push.argtypes = (ctypes.c_char_p, ctypes.c_int64)
    library.trimtab_dropped.restype = ctypes.c_uint64
    while not library.trimtab_range_active():  # No agent yet: nothing would be recorded.
        time.sleep(0.02)
    print("active", flush=True)
    for line in sys.stdin:
        name, count = line.split()
        for _ in range(int(count)):
            library.trimtab_range_push(name.encode(), 1)
            library.trimtab_range_pop()
        print(f"recorded {count}", flush=True)
    print(f"dropped {library.trimtab_dropped()}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["describe", "benchmark", "train", "produce"])
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--steps", type=int)
    for text in ("rendezvous", "requests", "plan", "log"):
        parser.add_argument(f"--{text}", default="")
    options = parser.parse_args()
    if options.command == "describe":
        print(json.dumps(soak.model()))
    elif options.command == "benchmark":
        soak.benchmark(options)
    elif options.command == "train":
        train(options)
    else:
        produce()


if __name__ == "__main__":
    main()
