"""Measures every plan of a job one by one, on the running job: how far the tuner's answer is from the best there is.

    bench/measure_plans.py --job examples/gpt-cpu/job.toml --model model.json --output plans.csv [--also report.json]

The space: one or two stages over two ranks, every cut that model.json allows, every microbatch that divides, and recompute of
nothing, everything, the first stage or the second. Each plan runs warm-up steps and then measured ones; the fastest are measured
again, in turn, so that drift of the machine does not choose the winner. `--also` adds the adopted plan of a report. Plans run
without the job's memory limit; one whose ranks held more than it is marked, and is no answer.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "trainer"), str(ROOT / "client" / "python")]


def plan_document(model, microbatch, stages):
    return {
        "schema": "trimtab.plan/1", "model": model["name"], "global_batch": model["global_batch"], "microbatch": microbatch,
        "stages": [
            {"devices": devices, "segments": [{"operators": list(cut), "dp": len(devices), "tp": 1, "recompute": recompute}]}
            for devices, cut, recompute in stages
        ],
    }


def all_plans(model):
    count = len(model["operators"])
    batches = [size for size in range(1, model["global_batch"] + 1) if model["global_batch"] % size == 0]
    cuts = [cut for cut in range(1, count) if model["operators"][cut].get("cut_before", True)]
    for microbatch in batches:
        for cut in cuts:
            for first in ([], [[0, cut]]):
                for second in ([], [[cut, count]]):
                    yield plan_document(model, microbatch, [([0], (0, cut), first), ([1], (cut, count), second)])
        if microbatch % 2 == 0:
            for recompute in ([], [[0, count]]):
                yield plan_document(model, microbatch, [([0, 1], (0, count), recompute)])


def describe(plan):
    parts = [f"mb{plan['microbatch']}"]
    for stage in plan["stages"]:
        segment = stage["segments"][0]
        begin, end = segment["operators"]
        again = segment.get("recompute") or []
        recompute = "" if not again else "/r" if again == [[begin, end]] else "/r" + "+".join(f"{a}-{b}" for a, b in again)
        parts.append(f"{begin}-{end}x{len(stage['devices'])}{recompute}")
    return " ".join(parts)


class Script:
    """Stands where the client stands in the trainer: plans come from a list, every `steps` steps, on all ranks alike."""

    def __init__(self, plans, steps, warmup, ranges, announce):
        self.announce = announce
        self.plans, self.steps, self.warmup, self.ranges = plans, steps, warmup, ranges
        self.range, self.push, self.pop = ranges.range, ranges.push, ranges.pop
        self.epoch = 0
        self.stop_requested = False
        self.runs_incumbent = False  # None of these plans is kept.
        self.results = {}
        self._since = 0

    def begin(self, step=0):
        del step

    def close(self, step=None):
        del step

    def prepared(self):
        pass

    def next_plan(self, step, agree, validate=None):
        from trimtab.plan_change import Change

        agree(self.epoch)
        self._since += 1
        if self._since < self.steps + self.warmup:
            return None
        for epoch in range(self.epoch + 1, len(self.plans)):
            if self._acceptable(epoch, agree, validate):
                return Change(epoch, self.plans[epoch])
        self.stop_requested = True
        return None

    def _acceptable(self, epoch, agree, validate):
        try:
            validate(self.plans[epoch])
            fits = 1
        except Exception as error:  # Any refusal is a result here.
            self.results[epoch] = {"reason": str(error)}
            fits = 0
        return agree(fits) == 1

    def activated(self, epoch, step, *, switch_ns, peak_bytes, phases=None):
        del peak_bytes, phases
        if self.announce:
            print(f"step {step}: plan {epoch} of {len(self.plans)}", file=sys.stderr, flush=True)
        self.epoch, self._since = epoch, 0
        self.results[epoch] = {"ms": [], "peak": 0, "switch_ms": switch_ns / 1e6}

    def failed(self, epoch, step, *, reason, message, active_epoch=None):
        del step, message, active_epoch
        self.results[epoch] = {"reason": reason}
        # The trainer has gone back to the plan before; go on with the one after.
        self._since = self.steps + self.warmup

    def step(self, step, *, wall_ns=0, peak_bytes=0, **rest):
        del step, rest
        result = self.results.setdefault(self.epoch, {"ms": [], "peak": 0})
        if "ms" not in result:
            return
        if self._since > self.warmup:
            result["ms"].append(wall_ns / 1e6)
        result["peak"] = max(result["peak"], peak_bytes)


def run_rank(options):
    import compute_environment  # noqa: F401  (sets what PyTorch reads when it is loaded)
    import config as model_config
    import faults
    import plan as plans
    import rank_process
    from job import Settings, TrainingJob
    from memory import PeakMemory
    from trimtab.ranges import Ranges

    documents = json.loads(pathlib.Path(options.plans).read_text())

    def work(process):
        config = model_config.load(options.config)
        first = plans.parse(documents[0], config, options.world_size)
        groups = process.connect()
        script = Script(documents, options.measure, options.warmup, Ranges({}), announce=options.rank == 0)
        job = TrainingJob(
            config, first, Settings(10**9), process=process, groups=groups, client=script,
            memory=PeakMemory(process.device), faults=faults.from_environment(options.rank),
            terminated=lambda: script.stop_requested)
        job.prepare()
        job.run()
        pathlib.Path(options.output).write_text(json.dumps(script.results))
        job.close()
        process.close()

    options.timeout, options.pin, options.device = 120, "auto", "auto"
    rank_process.run_as_rank(options, work)


def memory_bytes(value):
    """An integer, or a text such as "700MiB", as job.toml has it."""
    if isinstance(value, int):
        return value
    for unit, factor in (("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("B", 1)):
        if value.endswith(unit):
            return int(float(value.removesuffix(unit)) * factor)
    sys.exit(f"memory_limit: expected a size such as 700MiB, found {value}")


def measure(options, job, plans, measured_steps):
    """{index of plan: result}. One launch for all plans."""
    with tempfile.TemporaryDirectory() as scratch:
        (pathlib.Path(scratch) / "plans.json").write_text(json.dumps(plans))
        environment = {**os.environ, **job.get("environment", {}), "TRIMTAB": "0"}
        ranks = [
            subprocess.Popen(
                ["/usr/bin/python3", __file__, "--rank", str(rank), "--world-size", "2", "--config", options.config,
                 "--plans", f"{scratch}/plans.json", "--rendezvous", f"file://{scratch}/rendezvous",
                 "--output", f"{scratch}/{rank}.json", "--measure", str(measured_steps), "--warmup", str(options.warmup),
                 "--local-rank", str(rank)],
                env=environment, cwd=ROOT)
            for rank in range(2)
        ]
        statuses = [rank.wait() for rank in ranks]
        if any(statuses):
            sys.exit(f"the ranks ended with {statuses}")
        first, second = (json.loads(pathlib.Path(scratch, f"{rank}.json").read_text()) for rank in range(2))
    # A plan's peak is that of the rank that held most; its time is the same on both.
    for index, result in first.items():
        result["peak"] = max(result.get("peak", 0), second.get(index, {}).get("peak", 0))
    return {int(index): result for index, result in first.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job")
    parser.add_argument("--model")
    parser.add_argument("--config", default=str(ROOT / "examples/gpt-cpu/gpt.toml"))
    parser.add_argument("--output", required=True)
    parser.add_argument("--also", help="a report.json whose initial and adopted plans are measured too")
    parser.add_argument("--measure", type=int, default=1, help="steps of a plan in the first pass, after the warm-up")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--finalists", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--local-rank", type=int)
    parser.add_argument("--world-size", type=int, default=2)
    parser.add_argument("--plans")
    parser.add_argument("--rendezvous")
    options = parser.parse_args()
    if options.rank is not None:
        run_rank(options)
        return
    job = tomllib.loads(pathlib.Path(options.job).read_text())
    model = json.loads(pathlib.Path(options.model).read_text())
    report = json.loads(pathlib.Path(options.also).read_text()) if options.also else None
    # The initial plan is first: it fits by the job's own word.
    plans = [json.loads((pathlib.Path(options.job).parent / job["initial_plan"]).read_text()), *all_plans(model)]
    adopted = None
    if report:
        adopted = len(plans)
        plans.append(report["adopted"]["plan"])
    limit = memory_bytes(job["memory_limit"])
    first = measure(options, job, plans, options.measure)
    for result in first.values():
        if result.get("peak", 0) > limit:
            result["reason"] = "over the memory limit"
    medians = {index: statistics.median(result["ms"]) for index, result in first.items()
               if result.get("ms") and not result.get("reason")}
    finalists = sorted(medians, key=medians.get)[: options.finalists]
    finalists += [index for index in (0, adopted) if index is not None and index not in finalists]
    order = [0] + [index for _ in range(options.rounds) for index in finalists]
    again = measure(options, job, [plans[index] for index in order], 5)
    final = {}
    for place, index in enumerate(order):
        if place and again.get(place, {}).get("ms"):
            final.setdefault(index, []).extend(again[place]["ms"])
    write(options.output, plans, first, medians, final, adopted)


def write(path, plans, first, medians, final, adopted):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["plan", "first_ms", "final_ms", "final_steps", "peak_mib", "role", "reason"])
        key = lambda index: statistics.median(final[index]) if index in final else medians.get(index, 1e12) + 1e6
        for index in sorted(range(len(plans)), key=key):
            result = first.get(index, {})
            role = "initial" if index == 0 else "adopted" if index == adopted else ""
            writer.writerow([
                describe(plans[index]), f"{statistics.median(result['ms']):.1f}" if result.get("ms") else "",
                f"{statistics.median(final[index]):.1f}" if index in final else "", len(final.get(index, [])),
                round(result.get("peak", 0) / 2**20), role, result.get("reason", "")[:80]])


if __name__ == "__main__":
    main()
