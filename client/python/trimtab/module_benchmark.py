"""The benchmark command of a job that trains a PyTorch module with DDP, FSDP or in a pipeline:

    python3 -m trimtab.module_benchmark my_model:layers --requests FILE --rank R --world-size N --rendezvous URL

`my_model:layers` is the function of trimtab.module_model. Answers operator, optimizer (AdamW), collective,
point_to_point, overlap and process items as docs/protocols.md ("The benchmark command") says; all ranks run every item at the
same time. Operators run on one rank each: such jobs have no tensor parallelism. Groups of some of the ranks lie on one node.
"""
import argparse
import functools
import json
import resource
import socket
import statistics
import sys
import time
import types

from .module_model import BadModel, Kept, cost_key, layers_of, load
from .two_clocks import HostClock, clock_of_key, clocks_of

COLLECTIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")
SHORTEST_NS = 2_000_000  # shorter calls are repeated inside one repetition
OVERLAP_CALLS = 3  # computations that a communication lasts, at least


class BadItem(Exception):
    pass


class Operator:
    """One layer alone, with a batch of samples and the gradient of its output."""

    def __init__(self, torch, layer, example, samples):
        self.module = layer.module
        self._torch = torch
        inputs = example.repeat(samples, *[1] * (example.dim() - 1))
        self._input = inputs.detach().clone().requires_grad_(inputs.is_floating_point())
        self._gradient = None

    def forward(self):
        return self.module(self._input)

    def backward(self, output):
        if self._gradient is None:
            self._gradient = self._torch.full_like(output, 1e-3)
        output.backward(self._gradient)
        self._input.grad = None

    def once(self):
        self.backward(self.forward())

    def stored_bytes(self):
        known = [*self.module.parameters(), *self.module.buffers(), self._input]
        with Kept(self._torch, known) as kept:
            output = self.forward()
        kept.add(output)
        return kept.bytes

    def widest_bytes(self):
        """What the passes hold for a moment beyond what is stored: the gradients of the widest tensor and the output."""
        widest = 0

        def see(tensor):
            nonlocal widest
            widest = max(widest, tensor.numel() * tensor.element_size())
            return tensor

        with self._torch.autograd.graph.saved_tensors_hooks(see, lambda tensor: tensor):
            output = self.forward()
        return 2 * max(widest, output.numel() * output.element_size())


class Bench:
    def __init__(self, torch, given, example, requests, world_size):
        self.torch, self.distributed = torch, torch.distributed
        self.world_size = world_size
        self.rank = torch.distributed.get_rank() if world_size > 1 else 0
        self._hosts, self._blocks = None, {}
        self.least, self.most = requests.get("min_repetitions", 5), requests.get("max_repetitions", 60)
        self.error = requests.get("relative_error", 0.03)
        self.operators, inputs = {}, example
        for layer in layers_of(given, example):
            self.operators.setdefault(cost_key(layer, inputs), (layer, inputs))
            with torch.no_grad():
                inputs = layer.module(inputs)
        parameters = [parameter for layer, _ in self.operators.values() for parameter in layer.module.parameters()]
        self.dtype, self.device = str(parameters[0].dtype)[len("torch."):], parameters[0].device

    def operator(self, item):
        if item.get("cost_key") not in self.operators:
            raise BadItem(f"no operator has cost_key {item.get('cost_key')!r}")
        if item.get("tp", 1) != 1 or item.get("sharding", "default") != "default":
            raise BadItem("operators run on one rank each here")
        layer, inputs = self.operators[item["cost_key"]]
        return Operator(self.torch, layer, inputs, item.get("samples", 1))

    def block(self, size, placement):
        """The group of so many neighbouring ranks that has this one, and its first rank. All ranks call it."""
        if size == self.world_size:
            return None, 0
        if not 1 < size < self.world_size or self.world_size % size != 0:
            raise BadItem(f"groups are of all {self.world_size} ranks here, or of a number that divides them, found {size}")
        self.check_neighbours(size, placement)
        if size not in self._blocks:
            self._blocks[size] = [self.distributed.new_group(list(range(first, first + size))) for first in range(0, self.world_size, size)]
        place = self.rank // size
        return self._blocks[size][place], place * size

    def check_neighbours(self, size, placement):
        """All whole blocks of so many ranks lie as the item says. All ranks call it."""
        if self._hosts is None:
            self._hosts = [None] * self.world_size
            self.distributed.all_gather_object(self._hosts, socket.gethostname())
        blocks = [set(self._hosts[first:first + size]) for first in range(0, self.world_size - size + 1, size)]
        if not blocks or any((len(block) > 1) != (placement == "inter_node") for block in blocks):
            raise BadItem(f"of {self.world_size} ranks not every {size} neighbours lie {placement}")

    def agreed(self, value):
        """The largest of all ranks' values: everyone stops repeating at the same time."""
        tensor = self.torch.tensor([float(value)])
        if self.world_size > 1:
            self.distributed.all_reduce(tensor, op=self.distributed.ReduceOp.MAX)
        return tensor.item()

    def clocks(self, module):
        return clocks_of(self.torch, self.device, module)

    def repeat(self, *actions, clocks=HostClock()):
        """Nanoseconds of each action in turn, until their means are known well enough: a list for each, and behind those
        what the clocks have of the host besides."""
        passed, values = [None], []

        def pass_on(action):
            passed[0] = action(passed[0])

        for number in range(self.most + 1):
            spans = clocks.spans(*(functools.partial(pass_on, action) for action in actions))
            if number == 0:
                values = [[] for _ in spans]
                continue  # first calls allocate
            for one, span in zip(values, spans):
                one.append(span)
            if number >= self.least and not self.agreed(any(self._unsure(one) for one in values)):
                break
        return values

    def _unsure(self, values):
        return 1.96 * statistics.stdev(values) / len(values) ** 0.5 > self.error * statistics.fmean(values)


def operator(item, bench):
    alone = bench.operator(item)
    clocks = bench.clocks(alone.module)
    columns = bench.repeat(lambda _: alone.forward(), alone.backward, clocks=clocks)
    key = {"subject": item["cost_key"], "dtype": bench.dtype, "samples": item["samples"], "tp": 1, "sharding": "default"}
    yield from clocks.costs([{"kind": "operator_forward", **key}, {"kind": "operator_backward", **key}], columns)
    yield {"kind": "operator_stored_bytes", **key}, [alone.stored_bytes()]
    yield {"kind": "operator_working_bytes", **key}, [alone.widest_bytes()]


def optimizer(item, bench):
    if item.get("placement", ""):
        raise BadItem("optimizer states stay on the device here")
    alone = bench.operator({**item, "samples": 1})
    update = bench.torch.optim.AdamW(alone.module.parameters())
    alone.once()
    clocks = bench.clocks(alone.module)
    key = {"kind": "optimizer_step", "subject": item["cost_key"], "dtype": bench.dtype}
    yield from clocks.costs([key], bench.repeat(lambda _: update.step(), clocks=clocks))


def _call(item, bench):
    """A function that starts the collective once and returns what to wait for."""
    primitive, size = item.get("primitive"), item.get("group_size", bench.world_size)
    if primitive not in COLLECTIVES:
        raise BadItem(f"primitive must be one of {', '.join(COLLECTIVES)}, found {primitive!r}")
    group, first = bench.block(size, _placement(item))
    torch, distributed = bench.torch, bench.distributed
    count = max(item["bytes"] // 4, 1)
    tensor = torch.zeros(count)
    if primitive == "all_reduce":
        return lambda: distributed.all_reduce(tensor, group=group, async_op=True)
    if primitive == "broadcast":
        return lambda: distributed.broadcast(tensor, first, group=group, async_op=True)
    parts = [torch.zeros(count) for _ in range(size)]
    if primitive == "all_gather":
        return lambda: distributed.all_gather(parts, tensor, group=group, async_op=True)
    # Gloo has none: everyone's parts are reduced in turn, as the optimizer's shards are.
    shares = [torch.zeros(max(count // size, 1)) for _ in range(size)]

    class Several:
        def __init__(self):
            self._works = [distributed.reduce(share, rank, group=group, async_op=True) for rank, share in enumerate(shares, first)]

        def wait(self):
            for work in self._works:
                work.wait()

        def is_completed(self):
            return all(work.is_completed() for work in self._works)

    return Several


def _waited(start, times):
    for _ in range(times):
        start().wait()


def _times(start, bench):
    """How often a short call is repeated inside one repetition."""
    begin = time.perf_counter_ns()
    _waited(start, 2)
    took = (time.perf_counter_ns() - begin) / 2
    return int(bench.agreed(min(64, max(1, SHORTEST_NS / max(took, 1)))))


def _placement(item):
    """All ranks lie on one node or on several: whoever asks knows which."""
    return item.get("placement", "intra_node")


def _key(item, bench):
    return {"subject": item["primitive"], "bytes": item["bytes"], "group_size": item.get("group_size", bench.world_size),
            "placement": _placement(item)}


def collective(item, bench):
    start = _call(item, bench)
    times = _times(start, bench)
    (values,) = bench.repeat(lambda _: _waited(start, times))
    yield {"kind": "collective", **_key(item, bench)}, [value // times for value in values]


def point_to_point(item, bench):
    """Half of the way there and back between two neighbours. A rank that is left over only keeps step."""
    if bench.world_size < 2:
        raise BadItem("point_to_point needs two ranks, there is one")
    placement, peer = _placement(item), bench.rank ^ 1
    bench.check_neighbours(2, placement)
    tensor, calls = bench.torch.zeros(max(item["bytes"] // 4, 1)), [bench.distributed.send, bench.distributed.recv]
    there, back = calls if bench.rank < peer else reversed(calls)

    def round_trip():
        if peer < bench.world_size:
            there(tensor, peer)
            back(tensor, peer)

    start = functools.partial(types.SimpleNamespace, wait=round_trip)
    times = _times(start, bench)
    (values,) = bench.repeat(lambda _: _waited(start, times))
    if peer < bench.world_size:
        yield {"kind": "point_to_point", "subject": "send_recv", "bytes": item["bytes"], "placement": placement}, [
            value // (2 * times) for value in values]


def overlap(item, bench):
    start = _call(item, bench)
    alone = bench.operator({"cost_key": item.get("cost_key"), "samples": item.get("samples", 1)})
    alone.once()
    (computing,) = bench.repeat(lambda _: alone.once())
    (communicating,) = bench.repeat(lambda _: _waited(start, 1))
    compute, communicate = sum(computing) / len(computing), sum(communicating) / len(communicating)
    times = int(bench.agreed(min(256, max(1, OVERLAP_CALLS * compute / communicate))))
    slow_compute, slow_communicate = [], []
    for _ in range(bench.least):
        begin, calls, computed = time.perf_counter_ns(), 0, 0
        works = [start() for _ in range(times)]
        while not works[-1].is_completed() or calls == 0:
            before = time.perf_counter_ns()
            alone.once()
            computed += time.perf_counter_ns() - before
            calls += 1
        for work in works:
            work.wait()
        ended = time.perf_counter_ns()
        slow_compute.append(max(1_000_000, round(1e6 * computed / calls / compute)))
        slow_communicate.append(max(1_000_000, round(1e6 * (ended - begin) / times / communicate)))
        bench.agreed(0)
    key = _key(item, bench)
    yield {"kind": "overlap_computation", **key}, slow_compute
    yield {"kind": "overlap_communication", **key}, slow_communicate


def process(item, bench):
    yield {"kind": "process_bytes", "subject": "process"}, [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]


KINDS = {"operator": operator, "optimizer": optimizer, "collective": collective, "point_to_point": point_to_point,
         "overlap": overlap, "process": process}


def answer(items, bench, out):
    for number, item in enumerate(items):
        try:
            if item.get("kind") not in KINDS:
                raise BadItem(f"kind must be one of {', '.join(KINDS)}, found {item.get('kind')!r}")
            for key, values in KINDS[item["kind"]](item, bench):
                clock = {"clock": clock_of_key(key, bench.device)} if bench.device.type == "cuda" else {}
                print(json.dumps({"item": number, "cost": key, "values": values, **clock}), file=out, flush=True)
            print(json.dumps({"item_done": number}), file=out, flush=True)
        except BadItem as error:
            print(json.dumps({"item": number, "error": str(error)}), file=out, flush=True)


def main(words=None):
    import torch

    parser = argparse.ArgumentParser(prog="trimtab.module_benchmark")
    parser.add_argument("module", metavar="MODULE:FUNCTION")
    parser.add_argument("--requests", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--rendezvous", required=True)
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    try:
        layers, example = load(given.module)
        with open(given.requests, encoding="utf-8") as file:
            requests = json.load(file)
    except (BadModel, OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if given.world_size > 1:
        torch.distributed.init_process_group("gloo", init_method=given.rendezvous, rank=given.rank,
                                             world_size=given.world_size)
    answer(requests.get("items", []), Bench(torch, layers, example, requests, given.world_size), sys.stdout)
    if given.world_size > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
