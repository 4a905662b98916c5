"""Measure what the tuner asks for, with the very modules that are trained, on all ranks at once.

Reads benchmark requests, prints one JSON line for each cost and one for each finished item.
"""
import compute_environment  # First: it sets what PyTorch reads when it is loaded.

import argparse
import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "client", "python"))

import config as model_config
import overlap_slowdown
import rank_process
from benchmark_items import INTRA_NODE, KINDS, ItemError, blocks_of, nodes_of
from collectives import Launcher, NoRanges
from errors import BadInput
from memory import PeakMemory, is_out_of_memory, release_unused
from model import operator_specs
from operator_state import Recipe
from repetition import Precision
from sequence_sharing import SequenceParallel, Sharers
from tensor_parallel import ALONE, TensorParallel
from trimtab.two_clocks import clock_of_key
from warm_up import warm_up

SCHEMA = "trimtab.benchmark_requests/1"


def arguments(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True, help="the model's TOML file")
    parser.add_argument("--requests", required=True, help="the file of benchmark requests")
    parser.add_argument("--gpu-bench", default="", metavar="PROGRAM",
                        help="trimtab-gpu-bench: on a GPU its overlap slowdowns are measured with the process item")
    rank_process.add_arguments(parser)
    return parser.parse_args(words)


class Bench:
    """What every item needs."""

    def __init__(self, config, precision, groups, device, local_rank):
        self.config, self.precision, self.groups, self.device = config, precision, groups, device
        self._nodes = nodes_of([row[0] for row in groups.gather_integers([local_rank])])
        self.is_first_of_node = any(node[0] == groups.rank for node in self._nodes)
        self.recipe = Recipe(config.learning_rate, config.weight_decay)
        self.memory = PeakMemory(device)
        self._specs = self.specs_of(config)
        self._blocks = {}
        warm_up(device, config.precision)
        release_unused()
        self.process_bytes = self.memory.held_bytes()

    @staticmethod
    def specs_of(config):
        """By cost key, the first operator of each."""
        return {spec.cost_key: spec for spec in reversed(operator_specs(config))}

    def spec(self, item):
        """The first operator with the item's cost key."""
        if item.get("dtype", self.config.precision) != self.config.precision:
            raise ItemError(f"dtype must be {self.config.precision}, found {item['dtype']!r}")
        if item.get("cost_key") not in self._specs:
            raise ItemError(f"no operator has cost_key {item.get('cost_key')!r}; there are {sorted(self._specs)}")
        return self._specs[item["cost_key"]]

    def blocks(self, size, placement):
        """The groups of so many ranks that are measured beside each other; at least one."""
        blocks = blocks_of(self._nodes, size, placement)
        if not blocks:
            nodes = ", ".join(str(len(node)) for node in self._nodes)
            raise ItemError(f"no {size} ranks are {placement}: the nodes have {nodes} ranks")
        return blocks

    def block(self, size, placement):
        """The Group of this rank among them; None for a rank left over."""
        if (size, placement) not in self._blocks:
            groups = [self.groups.make_group(members) for members in self.blocks(size, placement)]
            self._blocks[size, placement] = next((group for group in groups if group is not None), None)
        return self._blocks[size, placement]

    def shared(self, tp, cp=1, sequence=False):
        """(tensor, context): this rank's part where so many neighbouring ranks share an operator, and so many groups of them
        its sequences; None for a rank left over."""
        launcher, tensor, context = Launcher(NoRanges(), self.device), ALONE, ALONE
        if tp * cp == 1:
            return tensor, context
        whole = self.block(tp * cp, INTRA_NODE)
        if tp > 1:
            group = self.block(tp, INTRA_NODE)
            tensor = group and (SequenceParallel(group, group.members, launcher) if sequence else
                                TensorParallel(group, group.index, launcher))
        for block in self.blocks(tp * cp, INTRA_NODE) if cp > 1 else ():
            for first in range(tp):
                group = self.groups.make_group(block[first::tp])
                context = Sharers(group, group.members, launcher) if group else context
        return whole and (tensor, context)

    def groups_maximum(self, value):
        return -self.groups.minimum(-value)


def load_requests(path):
    """(items, Precision) of the file; raises BadInput naming the field."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: cannot read the benchmark requests: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise BadInput(f"{path}: schema must be {SCHEMA}")
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise BadInput(f"{path}: items must be a list of objects")
    precision = Precision(document.get("relative_error", 0.03), document.get("min_repetitions", 5),
                          document.get("max_repetitions", 60))
    numbers = (precision.relative_error, precision.minimum, precision.maximum)
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) or n <= 0 for n in numbers):
        raise BadInput(f"{path}: relative_error, min_repetitions and max_repetitions must be positive numbers")
    return items, precision


def run(options, process):
    config = model_config.load(options.config)
    items, precision = load_requests(options.requests)
    local_rank = options.rank if options.local_rank is None else options.local_rank
    bench = Bench(config, precision, process.connect(), process.device, local_rank)
    for number, item in enumerate(items):
        try:
            if item.get("kind") not in KINDS:
                raise ItemError(f"kind must be one of {sorted(KINDS)}, found {item.get('kind')!r}")
            for key, values in measured(item, bench, options):
                clock = clock_of_key(key, process.device)
                print(json.dumps({"item": number, "cost": key, "values": values, "clock": clock}), flush=True)
            print(json.dumps({"item_done": number}), flush=True)
        except ItemError as error:
            print(json.dumps({"item": number, "error": str(error)}), flush=True)
    process.close()


def measured(item, bench, options):
    """(cost key, values) of everything that the item measures here; raises ItemError."""
    try:
        yield from KINDS[item["kind"]](item, bench)
    except RuntimeError as error:
        # Alone, a rank can go on to the next item; others would wait for it in this one.
        if bench.groups.world_size > 1 or not is_out_of_memory(error):
            raise
        release_unused()
        raise ItemError(str(error).splitlines()[0]) from error
    if item["kind"] == "process" and options.gpu_bench and bench.device.type == "cuda":
        yield from slowdowns(bench, options.gpu_bench)


def slowdowns(bench, program):
    """Rank 0's GPU speaks for all: its neighbours wait, and do not disturb."""
    bench.groups.barrier()
    if bench.groups.rank == 0:
        try:
            yield from overlap_slowdown.table_lines(program, bench.config, 1, bench.device.index)
        except (OSError, RuntimeError) as error:
            print(f"no overlap slowdowns: {error}", flush=True)
    bench.groups.barrier()


if __name__ == "__main__":
    given = arguments()
    rank_process.run_as_rank(given, lambda process: run(given, process))
