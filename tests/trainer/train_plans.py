"""One rank that trains several plans in turn, without an agent: each from the beginning, or each from where the one
before it ended. Rank 0 writes a line for each step, with --held with what the ranks hold as it ends."""
import argparse
import contextlib
import json
import os
import threading
import time

import torch

import harness  # Makes the trainer's modules importable.

import config as model_config
import intervals
import plan as plans
import process_groups
import rank_process
from collectives import Launcher, NoRanges
from control import Control
from data import TokenStream
from faults import NoFaults
from holding import of_rank
from memory import PeakMemory, release_unused, resident_bytes
from model import operator_specs, parameter_count
from operator_state import OperatorState, Recipe, initial
from pipeline import Pipeline
from plan_change import move_values, peak_of_move

assert harness.TRAINER


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", required=True)
    parser.add_argument("--plan", required=True, help="a file with a list of plans")
    parser.add_argument("--steps", type=int, required=True, help="of each plan")
    parser.add_argument("--switch", action="store_true", help="the state goes on from plan to plan")
    parser.add_argument("--repeat", type=int, default=1, metavar="TIMES", help="go through the plans so many times")
    parser.add_argument("--groups-kept", type=int, default=process_groups.GROUPS_KEPT)
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--ranges", action="store_true", help="the last line says what ranges rank 0 opened")
    parser.add_argument("--log", required=True)
    rank_process.add_arguments(parser)
    return parser.parse_args()


class Recorder:
    """Ranges as the client library has them; any thread."""

    active = True

    def __init__(self):
        self._lock, self.counts = threading.Lock(), {}

    @contextlib.contextmanager
    def range(self, name, payload=0):
        yield
        with self._lock:
            key = f"{name} {payload}"
            self.counts[key] = self.counts.get(key, 0) + 1

    def await_others(self):
        """Until the thread that closes ranges in their order has closed all that were launched."""
        reached = threading.Event()
        Launcher(self, torch.device("cpu")).launch("reached", torch.empty(0), lambda: Reached(reached))
        reached.wait(60)


class Reached:
    def __init__(self, event):
        self._event = event

    def wait(self):
        self._event.set()


class Plans:
    def __init__(self, options, process):
        self.options, self.device = options, process.device
        self.config = model_config.load(options.config)
        self.specs = operator_specs(self.config)
        self.groups = process.connect()
        self.control = Control(self.groups)
        self.recipe = Recipe(self.config.learning_rate, self.config.weight_decay)
        self.ranges = Recorder() if options.ranges else NoRanges()
        self.rank, self.step, self.plan, self.values = options.rank, 0, None, None
        self.memory, self.took = PeakMemory(self.device), [0, 0]
        self.on_gpu = self.device.type == "cuda"

    def begin(self, plan):
        if self.values is None or not self.options.switch:
            self.step = 0
            held = [(spec, of_rank(plan, self.rank, spec, self.config)) for spec in self.specs]
            self.values = {spec.index: initial(spec, self.config, holding, self.device)
                           for spec, holding in held if holding}
        else:
            self.change(plan)
        self.plan = plan
        self.groups.prepare(plan)

    def change(self, plan):
        """Move the values; self.took is how much more memory that took than was held, and how much was foreseen."""
        self.memory.mark()
        before = self.memory.held_bytes()
        held_now = sum(values.holding.state_bytes for values in self.values.values())
        foreseen = peak_of_move(self.plan, plan, self.rank, self.specs, self.config)
        move_values(self.plan, plan, self.rank, self.specs, self.config, self.groups, self.values, self.device,
                    NoFaults(), self.step)
        self.took = [self.memory.peak_bytes() - before, foreseen - held_now]

    def train(self, number, log):
        states = [OperatorState(self.specs[index], self.config, self.device, kept)
                  for index, kept in self.values.items()]
        pipeline = Pipeline(self.plan, self.rank, self.config, TokenStream(self.config), self.groups,
                            self.ranges, states, self.recipe, self.device)
        for _ in range(self.options.steps):
            began = time.perf_counter_ns()
            if self.on_gpu:
                torch.cuda.reset_peak_memory_stats(self.device)
            result = pipeline.run_step(self.step)
            wall, allocated = time.perf_counter_ns() - began, torch.cuda.max_memory_allocated(self.device) if self.on_gpu else 0
            self.control.present(result, stop_heard=lambda: False, terminated=False, peak_bytes=0, limit_bytes=0)
            self.control.agree(0)
            summary = self.control.summary
            print(json.dumps({"plan": number, "step": self.step, "loss": summary.loss,
                              "gradient_norm": summary.gradient_norm, "samples": summary.samples,
                              "gradients": self.projected(states),
                              "wall_ns": wall, "allocated": sum(self.groups.gather_integers([allocated]), []),
                              "took": self.groups.gather_integers(self.took),
                              "held": self.groups.gather_integers(held() if self.options.held else [0])}), file=log)
            self.step += 1


    def projected(self, states):
        """Of each operator: the means of its gradients (Adam's first moments) in one random direction."""
        shares = [0.0] * len(self.specs)
        for state in states:
            index, holding = state.spec.index, state.holding
            direction = torch.randn(parameter_count(state.spec, self.config), generator=torch.Generator().manual_seed(index))
            for own, element, length in intervals.common(holding.owned, holding.unique):
                begin = intervals.cut(holding.unique, element, element + 1)[0][0]
                moments = state.values.moments[0, own : own + length].cpu()
                shares[index] += float(torch.dot(moments, direction[begin : begin + length]))
        return [sum(column) for column in zip(*self.groups.gather_objects(shares))]


def held():
    """[open files, threads, KiB resident] of this process."""
    release_unused()
    return [len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), resident_bytes() >> 10]


def run(options, process):
    process_groups.GROUPS_KEPT = options.groups_kept
    every = Plans(options, process)
    with open(options.plan, encoding="utf-8") as file:
        documents = json.load(file)
    with open(options.log if options.rank == 0 else os.devnull, "w", encoding="utf-8") as log:
        for number, document in list(enumerate(documents)) * options.repeat:
            every.begin(plans.parse(document, every.config, options.world_size))
            every.train(number, log)
            log.flush()
        if options.ranges:
            every.ranges.await_others()
            print(json.dumps(every.ranges.counts), file=log)
    process.close()


if __name__ == "__main__":
    given = arguments()
    rank_process.run_as_rank(given, lambda process: run(given, process))
