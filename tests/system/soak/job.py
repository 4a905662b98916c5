"""The commands of a job that trains nothing: it passes through the whole loop, with the real client, library and socket.

`job.py describe`, `job.py benchmark ...`, `job.py train ...`. Standard library only. Ranks agree over TCP, as collectives
would, and end when a neighbour does. Each rank writes down how often it ended each range, before the agent can have seen it.
"""
import argparse
import json
import os
import pathlib
import random
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "python"))
import trimtab  # noqa: E402

OPERATORS = 4
GLOBAL_BATCH = 8
MIB = 1 << 20
PATIENCE_S = 20


def model():
    operators = [{"name": f"layer-{i}", "kind": "layer", "cost_key": "layer", "parameter_bytes": MIB, "activation_bytes": MIB,
                  "output_bytes": MIB // 8, "forward_flops": 1000000} for i in range(OPERATORS)]
    return {"schema": "trimtab.model/1", "name": "soak", "global_batch": GLOBAL_BATCH, "operators": operators}


def answers(item):
    """(cost, mean) of everything that an item of a benchmark asks for."""
    kind = item["kind"]
    if kind == "operator":
        samples = item["samples"]
        key = {"subject": item["cost_key"], "dtype": item["dtype"], "samples": samples, "tp": item.get("tp", 1),
               "sharding": item.get("sharding", "default")}
        yield {"kind": "operator_forward", **key}, 200000 + 100000 * samples
        yield {"kind": "operator_backward", **key}, 400000 + 200000 * samples
        yield {"kind": "operator_stored_bytes", **key}, MIB * samples
        yield {"kind": "operator_working_bytes", **key}, MIB * samples
    elif kind == "optimizer":
        yield {"kind": "optimizer_step", "subject": item["cost_key"], "dtype": item["dtype"]}, 50000
    elif kind == "process":
        yield {"kind": "process_bytes", "subject": "process"}, 50 * MIB
    elif kind in ("collective", "point_to_point"):
        key = {name: item[name] for name in ("bytes", "group_size", "placement") if name in item}
        yield {"kind": kind, "subject": item.get("primitive", "send_recv"), **key}, 20000 + item["bytes"] // 1000
    else:
        raise ValueError("this job cannot measure that")


def benchmark(options):
    for index, item in enumerate(json.loads(pathlib.Path(options.requests).read_text())["items"]):
        try:
            for cost, mean in answers(item):
                values = [round(mean * random.uniform(0.98, 1.02)) for _ in range(5)]
                print(json.dumps({"item": index, "cost": cost, "values": values}))
        except ValueError as refused:
            print(json.dumps({"item": index, "error": str(refused)}))
        print(json.dumps({"item_done": index}), flush=True)


class Neighbours:
    """The minimum of an integer over all ranks. Rank 0 listens and says where in the rendezvous file."""

    def __init__(self, rank, world_size, rendezvous):
        self.rank, self.sockets = rank, []
        place = pathlib.Path(rendezvous.removeprefix("file://"))
        if world_size == 1:
            return
        if rank == 0:
            self.listen(world_size, place)
        else:
            self.connect(place)

    def listen(self, world_size, place):
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(PATIENCE_S)
            beside = place.with_name(place.name + ".new")
            beside.write_text(str(server.getsockname()[1]))
            beside.rename(place)
            for _ in range(world_size - 1):
                self.sockets.append(self.bounded(server.accept()[0]))

    def connect(self, place):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                self.sockets.append(self.bounded(socket.create_connection(("127.0.0.1", int(place.read_text())), timeout=1)))
                return
            except (OSError, ValueError):
                time.sleep(0.05)
        sys.exit("rank 0 is not there")

    @staticmethod
    def bounded(connection):
        connection.settimeout(PATIENCE_S)
        return connection

    def minimum(self, value):
        if self.rank == 0:
            value = min([value] + [self.read(one) for one in self.sockets])
            for one in self.sockets:
                one.sendall(value.to_bytes(8, "little", signed=True))
            return value
        for one in self.sockets:
            one.sendall(value.to_bytes(8, "little", signed=True))
            value = self.read(one)
        return value

    @staticmethod
    def read(connection):
        data = b""
        while len(data) < 8:
            part = connection.recv(8 - len(data))
            if not part:
                sys.exit("a neighbour has ended")
            data += part
        return int.from_bytes(data, "little", signed=True)


def step_seconds(plan):
    """What the job pretends to take: larger microbatches are faster, recomputation is slower."""
    microbatches = GLOBAL_BATCH / plan.get("microbatch", 1)
    recomputes = any(segment.get("recompute") for stage in plan["stages"] for segment in stage["segments"])
    return 0.008 + 0.001 * microbatches + (0.002 if recomputes else 0)


class Counts:
    """How often each range was ended, on disk."""

    def __init__(self, directory):
        self.file = pathlib.Path(directory) / f"{os.environ['TRIMTAB_JOB']}-{os.getpid()}-{time.time_ns()}.json"
        self.counts = {}

    def about_to_end(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def write(self):
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.counts))
        beside.rename(self.file)


def train(options):
    client = trimtab.connect()
    neighbours = Neighbours(options.rank, options.world_size, options.rendezvous)
    plan = json.loads(pathlib.Path(options.plan).read_text())
    counts = Counts(options.counts)
    # The same for all jobs: new names would be new knowledge, which is kept.
    names = [f"part-{i}" for i in range(4)]
    pause = step_seconds(plan)
    for step in range(options.steps):
        begin = time.monotonic_ns()
        # Written down first: what is killed in between has said at most too much.
        for name in names:
            counts.about_to_end(name)
        counts.write()
        for name in names:
            with client.range(name):
                time.sleep(pause / len(names))
        client.step(step, wall_ns=time.monotonic_ns() - begin, cpu_ns=1000, loss=1.0 / (1 + step), samples=f"{step:x}",
                    peak_bytes=60 * MIB)
        if neighbours.minimum(0 if client.stop_requested else 1) == 0:
            break
        changed = time.monotonic_ns()
        change = client.next_plan(step + 1, neighbours.minimum)
        if change is not None:
            pause = step_seconds(change.plan)
            client.activated(change.epoch, step + 1, switch_ns=time.monotonic_ns() - changed, peak_bytes=60 * MIB)
    client.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["describe", "benchmark", "train"])
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world-size", type=int, default=1)
    parser.add_argument("--rendezvous", default="")
    parser.add_argument("--requests")
    parser.add_argument("--plan")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--counts")
    options = parser.parse_args()
    if options.command == "describe":
        print(json.dumps(model()))
    elif options.command == "benchmark":
        benchmark(options)
    else:
        train(options)


if __name__ == "__main__":
    main()
