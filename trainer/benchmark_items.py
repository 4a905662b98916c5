"""What each kind of benchmark request measures.

Each function takes the item and a Bench and yields (cost key, values). Unusable items raise ItemError before
anything collective happens, and alike on every rank.
"""
import re
import statistics
import threading
import time

import torch
from trimtab.two_clocks import clocks_of

from collectives import Messages
from control import Control
from data import TokenStream
from holding import ELEMENT_BYTES
from model import why_not_split
from operator_bench import OperatorBench
from overlap_slowdown import GpuOverlap
from pipeline import StepResult
from repetition import elapsed_ns, repeat, span_ns

INNER_NS = 2_000_000  # Short collectives are repeated inside one repetition, or the barrier's skew is what is measured.
INNER_MAX = 64
OVERLAP_CALLS_MAX = 256
OVERLAP_ATTEMPTS = 5
COMPANION_NS = 1_000_000_000
INTRA_NODE, INTER_NODE = "intra_node", "inter_node"
COPIES = ("host_to_device", "device_to_host")
PRIMITIVES = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all")


class ItemError(Exception):
    """This rank cannot run the item; the text is the answer."""


def nodes_of(local_ranks):
    """The ranks of each node, in order, from every rank's place on its own: a node's ranks follow each other."""
    nodes = []
    for rank, place in enumerate(local_ranks):
        if not nodes or place <= local_ranks[rank - 1]:
            nodes.append([])
        nodes[-1].append(rank)
    return nodes


def blocks_of(nodes, size, placement):
    """Disjoint groups of `size` ranks, as many as there are: each of one node, or each of several."""
    if placement == INTRA_NODE:
        rows = nodes
    else:  # The first ranks of all nodes, then the second ones, so that neighbours are on different nodes.
        widest = max(map(len, nodes))
        rows = [[node[place] for place in range(widest) for node in nodes if place < len(node)]]
    blocks = [tuple(sorted(row[begin : begin + size])) for row in rows for begin in range(0, len(row) - size + 1, size)]
    if placement == INTRA_NODE:
        return blocks
    return [block for block in blocks if not any(set(block) <= set(node) for node in nodes)]


def operator(item, bench):
    spec, samples, tp = bench.spec(item), _positive(item, "samples"), _positive({"tp": 1, **item}, "tp")
    sharding = str(item.get("sharding", "default"))
    cp, sequence = _sharing(sharding)
    if tp * cp > bench.groups.world_size:
        raise ItemError(f"tp must be at most the {bench.groups.world_size // cp} ranks, found {tp}")
    why = why_not_split(spec, bench.config, tp)
    if why:
        raise ItemError(f"tp {tp} does not divide what is split: {why}")
    if (sequence and tp == 1) or bench.config.sequence % (cp * tp if sequence else cp):
        raise ItemError(f"sharding {sharding} at tp {tp} needs more ranks to share an operator, or equal parts of sequences "
                        f"of {bench.config.sequence}")
    shared = bench.shared(tp, cp, sequence)
    if shared is None:  # A rank left over only keeps step.
        repeat(lambda: (0,), bench.precision, bench.groups)
        return
    alone = OperatorBench(spec, bench.config, samples, bench.device, *shared)
    stored, working = alone.memory()

    clocks, kept = clocks_of(torch, bench.device, alone.state.module), []
    columns = repeat(lambda: clocks.spans(lambda: kept.append(alone.forward()), lambda: alone.backward(kept.pop())),
                     bench.precision, bench.groups)
    key = {"subject": item["cost_key"], "dtype": bench.config.precision, "samples": samples, "tp": tp,
           "sharding": sharding}
    yield from clocks.costs([{"kind": "operator_forward", **key}, {"kind": "operator_backward", **key}], columns)
    yield {"kind": "operator_stored_bytes", **key}, [stored]
    yield {"kind": "operator_working_bytes", **key}, [working]
    if tp > 1:  # Not a tp-th of the whole: some parameters are not split.
        yield {"kind": "operator_parameter_bytes", **key}, [ELEMENT_BYTES * alone.state.holding.count]


def optimizer(item, bench):
    placement = item.get("placement", "")
    if placement not in ("", "host"):
        raise ItemError(f"placement must be host or absent, found {placement!r}")
    device = torch.device("cpu") if placement == "host" else bench.device
    state = OperatorBench(bench.spec(item), bench.config, 1, device).state

    clocks = clocks_of(torch, device)

    def once():
        state.gradient.fill_(1e-3)
        return clocks.spans(lambda: state.update(bench.recipe, 1))

    where = {"placement": placement} if placement else {}
    key = {"kind": "optimizer_step", "subject": item["cost_key"], "dtype": bench.config.precision, **where}
    yield from clocks.costs([key], repeat(once, bench.precision, bench.groups))


def collective(item, bench):
    primitive, bytes_, size = _collective_fields(item, bench)
    placement = _placement(item)
    group = bench.block(size, placement)
    launch = _primitive(primitive, bytes_, size, group, bench)

    def call():
        launch().wait()

    (values,) = repeat(_inner(call, bench), bench.precision, bench.groups)
    if group is not None:
        yield {"kind": "collective", "subject": primitive, "bytes": bytes_, "group_size": size,
               "placement": placement}, values


def point_to_point(item, bench):
    bytes_ = _positive(item, "bytes")
    if bench.groups.world_size < 2:
        raise ItemError("point_to_point needs two ranks, there is one")
    placement = _placement(item)
    rank = bench.groups.rank
    pair = next((pair for pair in bench.blocks(2, placement) if rank in pair), None)
    tensor = torch.zeros(max(bytes_ // 4, 1), device=bench.device)

    def round_trip():
        if pair is None:
            return  # A rank left over only keeps step.
        first, second = pair
        if rank == first:
            bench.groups.send_state(tensor, second)
            bench.groups.receive_state(tensor, second)
        else:
            bench.groups.receive_state(tensor, first)
            bench.groups.send_state(tensor, first)

    (values,) = repeat(_inner(round_trip, bench), bench.precision, bench.groups)
    if pair is not None:
        yield {"kind": "point_to_point", "subject": "send_recv", "bytes": bytes_, "placement": placement}, [
            value // 2 for value in values]


def copy(item, bench):
    """As host_memory.py copies. One rank of each node copies alone: who shares a node's host link is priced as more bytes."""
    direction, bytes_ = item.get("direction"), _positive(item, "bytes")
    if direction not in COPIES:
        raise ItemError(f"direction must be one of {', '.join(COPIES)}, found {direction!r}")

    def once():
        if bench.is_first_of_node:
            target.copy_(source, non_blocking=True)

    elements = max(bytes_ // ELEMENT_BYTES, 1)
    host = torch.zeros(elements, pin_memory=bench.device.type == "cuda")
    inside = torch.zeros(elements, device=bench.device)
    target, source = (inside, host) if direction == "host_to_device" else (host, inside)
    (values,) = repeat(_inner(once, bench), bench.precision, bench.groups)
    if bench.is_first_of_node:
        yield {"kind": "point_to_point", "subject": direction, "bytes": bytes_, "placement": INTRA_NODE}, values


def overlap(item, bench):
    primitive, bytes_, size = _collective_fields(item, bench)
    spec, samples = bench.spec(item), _positive(item, "samples")
    placement = _placement(item)
    group = bench.block(size, placement)
    alone = companion(spec, samples, bench)
    launch = _primitive(primitive, bytes_, size, group, bench)
    measure = _overlap_on_gpu if bench.device.type == "cuda" else _overlap_on_cpu
    computation_slowdown, communication_slowdown = measure(alone, launch, bench)
    if group is not None:
        key = {"subject": primitive, "bytes": bytes_, "group_size": size, "placement": placement}
        yield {"kind": "overlap_computation", **key}, computation_slowdown
        yield {"kind": "overlap_communication", **key}, communication_slowdown


def companion(spec, samples, bench):
    """The operator with as many of the samples as it computes in a second: on a slow processor more would take minutes."""
    while True:
        alone = OperatorBench(spec, bench.config, samples, bench.device)
        alone.backward(alone.forward())  # First calls allocate.
        took = bench.groups_maximum(span_ns(bench.device, lambda: alone.backward(alone.forward())))
        if took <= COMPANION_NS or samples == 1:
            return alone
        samples = max(1, samples * COMPANION_NS // took)


def _overlap_on_gpu(alone, launch, bench):
    overlap_ = GpuOverlap(lambda: alone.backward(alone.forward()), launch, bench.device, bench.groups_maximum)

    def once():
        for _ in range(OVERLAP_ATTEMPTS):
            ratios = overlap_.ratios()
            if bench.groups.minimum(int(ratios is not None)):
                return [max(1_000_000, 1_000_000 * ratio) for ratio in ratios]
        raise ItemError(f"in {OVERLAP_ATTEMPTS} attempts one of the two ended before the other's disturbed run did")

    return repeat(once, bench.precision, bench.groups)


def _overlap_on_cpu(alone, launch, bench):
    def compute():
        alone.backward(alone.forward())

    def communicate():
        works = [launch() for _ in range(calls)]
        for work in works:
            work.wait()

    calls = 1
    for _ in range(2):
        compute()
        communicate()
    (computation,) = repeat(lambda: (elapsed_ns(compute),), bench.precision, bench.groups)
    # Enough calls to last longer than the computation that they disturb, the same number on every rank.
    calls = bench.groups_maximum(max(1, min(OVERLAP_CALLS_MAX, statistics.median_high(computation) * 2 // elapsed_ns(communicate))))
    (communication,) = repeat(lambda: (elapsed_ns(communicate),), bench.precision, bench.groups)

    def together():
        ended = []
        begin = time.perf_counter_ns()
        works = [launch() for _ in range(calls)]
        thread = threading.Thread(target=lambda: ended.append([work.wait() for work in works] and time.perf_counter_ns()))
        thread.start()
        spans = []
        while thread.is_alive() or not spans:
            spans.append(elapsed_ns(compute))
        thread.join()
        disturbed = statistics.median_high(spans[:-1] or spans)  # The last may have run partly alone.
        return (max(1_000_000, 1_000_000 * disturbed / statistics.median_high(computation)),
                max(1_000_000, 1_000_000 * (ended[0] - begin) / statistics.median_high(communication)))

    return repeat(together, bench.precision, bench.groups)


def process(item, bench):
    yield {"kind": "process_bytes", "subject": "process"}, [bench.process_bytes]
    control, stream = Control(bench.groups), TokenStream(bench.config)

    def empty_step():
        stream.batch(range(bench.config.global_batch))
        peak = bench.memory.peak_bytes()
        control.present(StepResult(), stop_heard=lambda: False, terminated=False, peak_bytes=peak, limit_bytes=0)
        control.agree(0)

    (values,) = repeat(lambda: (elapsed_ns(empty_step),), bench.precision, bench.groups)
    yield {"kind": "step_overhead", "subject": "step"}, values


KINDS = {"operator": operator, "optimizer": optimizer, "collective": collective,
         "point_to_point": point_to_point, "copy": copy, "overlap": overlap, "process": process}


def once_of(item, bench):
    """A function that runs the item once and returns the nanoseconds of each of its times; None where this rank only keeps
    step. Of an operator forward and backward, of a transfer a round trip's half."""
    kind = item.get("kind")
    if kind == "operator":
        return _operator_once(item, bench)
    if kind == "collective":
        primitive, bytes_, size = _collective_fields(item, bench)
        group = bench.block(size, _placement(item))
        launch = _primitive(primitive, bytes_, size, group, bench)
        return None if group is None else lambda: (span_ns(bench.device, lambda: launch().wait()),)
    if kind == "point_to_point":
        return _transfer_once(item, bench)
    raise ItemError(f"kind must be operator, collective or point_to_point, found {kind!r}")


def _operator_once(item, bench):
    if item.get("tp", 1) != 1 or item.get("sharding", "default") != "default":
        raise ItemError("operators are measured again on one rank each")
    alone = OperatorBench(bench.spec(item), bench.config, _positive(item, "samples"), bench.device)
    clocks, kept = clocks_of(torch, bench.device, alone.state.module), []
    # The device's times come first.
    return lambda: clocks.spans(lambda: kept.append(alone.forward()), lambda: alone.backward(kept.pop()))[:2]


def _transfer_once(item, bench):
    rank, tensor = bench.groups.rank, torch.zeros(max(_positive(item, "bytes") // 4, 1), device=bench.device)
    pair = next((pair for pair in bench.blocks(2, _placement(item)) if rank in pair), None)
    if pair is None:
        return None
    peer = pair[1] if rank == pair[0] else pair[0]
    ways = [bench.groups.send_state, bench.groups.receive_state][:: 1 if rank == pair[0] else -1]
    return lambda: (span_ns(bench.device, lambda: [way(tensor, peer) for way in ways]) // 2,)


def _sharing(sharding):
    """(cp, do tensor-parallel ranks share sequences) of "default", "sequence", "context-N" or "sequence-context-N"."""
    match = re.fullmatch(r"default|sequence|(?:sequence-)?context-([2-9]|[1-9][0-9]+)", sharding)
    if match is None:
        raise ItemError("sharding must be default, sequence, context-N or sequence-context-N, for this trainer splits "
                        f"operators in one way, found {sharding!r}")
    return int(match[1] or 1), sharding.startswith("sequence")


def _positive(item, name):
    value = item.get(name)
    if type(value) is not int or value < 1:
        raise ItemError(f"{name} must be an integer of 1 or more, found {value!r}")
    return value


def _placement(item):
    placement = item.get("placement", INTRA_NODE)
    if placement not in (INTRA_NODE, INTER_NODE):
        raise ItemError(f"placement must be {INTRA_NODE} or {INTER_NODE}, found {placement!r}")
    return placement


def _collective_fields(item, bench):
    primitive, size = item.get("primitive"), _positive(item, "group_size")
    if primitive not in PRIMITIVES:
        raise ItemError(f"primitive must be one of {', '.join(PRIMITIVES)}, found {primitive!r}")
    if not 2 <= size <= bench.groups.world_size:
        raise ItemError(f"group_size must lie in [2, {bench.groups.world_size}], found {size}")
    return primitive, _positive(item, "bytes"), size


def _primitive(primitive, bytes_, size, group, bench):
    """A function that starts the collective and returns its work; ranks without a group only keep step."""
    if group is None:
        return lambda: Messages([])
    elements = max(bytes_ // 4, 1)
    if primitive in ("reduce_scatter", "all_to_all"):
        elements = -(-elements // size) * size  # As many for each rank.
    tensor = torch.zeros(elements, device=bench.device)
    if primitive == "all_reduce":
        return lambda: group.all_reduce(tensor)
    if primitive == "reduce_scatter":
        return lambda: group.reduce_scatter(tensor)
    if primitive == "broadcast":
        return lambda: group.broadcast(tensor, group.members[0])
    if primitive == "all_to_all":
        received = torch.empty_like(tensor)
        return lambda: group.all_to_all(received.view(size, -1), tensor.view(size, -1))
    everyone = [torch.empty_like(tensor) for _ in range(size)]
    return lambda: group.all_gather(everyone, tensor)


def _inner(call, bench):
    """A measurement of one call, averaged over as many as fill INNER_NS, the same number on every rank."""
    call()
    bench.groups.barrier()
    once = span_ns(bench.device, call)
    count = bench.groups_maximum(max(1, min(INNER_MAX, INNER_NS // max(once, 1))))
    return lambda: (span_ns(bench.device, lambda: [call() for _ in range(count)]) / count,)
