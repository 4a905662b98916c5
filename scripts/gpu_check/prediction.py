"""The sections that hold predictions to measured steps: plans from launch-bound to compute-bound, priced by what `trimtab
profile` measured here, and again with what all other plans of the section have taught."""
import contextlib
import csv
import json
import pathlib
import sqlite3
import statistics
import subprocess
import time
import tomllib

from . import arms, child, megatron_runs
from .installation import ROOT
from .report import AIMS
from .sections import Failed

STEPS = 100_000  # More than a plan is measured for: its job is stopped then.
SHARES_S = 3  # How long a device's shares are waited for.
BATCH = 32  # Of the reference trainer: microbatches of 1 to 32.
MICROBATCHES = (1, 2, 4, 8, 16, 32)
TOGETHER = (1, 4, 16)  # Of two ranks.
MEGATRON_PLANS = ((1, True), (1, False), (2, False), (4, False), (8, False), (8, True))
ROOMY = 1 << 40  # What fits is not asked here.


class Job:
    """A job's documents and costs, under daemons of its own until close()."""

    def __init__(self, installation, inherited, budget, name, ranks, device):
        self.name, self.ranks, self._shares_s = name, ranks, SHARES_S if device == "cuda" else 0
        self.folder = installation.folder / name
        self.folder.mkdir(exist_ok=True)
        self._trimtab, self.state = installation.program("trimtab"), self.folder / "state"
        self.environment, self._budget = arms.cleared(inherited), budget
        self._model, self._costs = self.folder / "model.json", self.folder / "costs.db"

    def trimtab(self, *words):
        return child.run([self._trimtab, *words], self._budget, environment=self.environment, directory=ROOT)

    @contextlib.contextmanager
    def beside(self, *words):
        """The same while something else is done: gives the process, which told() waits for."""
        process = child.begin([self._trimtab, *words], self.environment, ROOT)
        try:
            yield process
        finally:
            if process.returncode is None:
                child.end(process)

    def told(self, process):
        return child.output(process.args, process, self._budget.left())

    def file(self, name, document):
        path = self.folder / name
        path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
        return path

    def profile(self, model, benchmark, knobs, **more):
        """Measures the costs of all plans that the knobs allow."""
        self.file("model.json", model)
        self.file("cluster.json", cluster(1, self.ranks))
        self.trimtab(*self._words("profile", self.name, {
            "mode": "recommend", "model": str(self._model), "commands.benchmark": benchmark, "commands.train": ["true"],
            **{f"knobs.{knob}": knob in knobs for knob in KNOBS}, **more}))
        self.keep_costs()  # Before training corrects any of them.

    def keep_costs(self):
        """What evaluated() prices by from now on: the costs as they are."""
        with contextlib.closing(sqlite3.connect(next(self.state.rglob("costs.db")))) as now:
            with contextlib.closing(sqlite3.connect(self._costs)) as copy:
                now.backup(copy)

    def observing(self, name, train, **more):
        """The words of the command that has ranks train so."""
        return self._words("tune", name, {"mode": "observe", "steps": STEPS, "commands.train": [str(word) for word in train], **more})

    def observed(self, name, train, **more):
        """The milliseconds of a step, and where steps went ({}: nobody knows), of ranks that train so."""
        self.trimtab(*self.observing(name, train, **more))
        until = time.monotonic() + self._shares_s
        while True:
            now = json.loads(self.trimtab("top", "--job", name, "--once", "--json", "--state", self.state))
            shares = shares_of(now["live"]["ranks"])
            if shares or time.monotonic() >= until:
                break
            time.sleep(0.2)
        self.trimtab("job", "stop", "--job", name, "--why", "it is measured", "--state", self.state)
        return now["job"]["initial"]["measured_ms"], shares

    def _words(self, verb, name, settings):
        common = {"schema": "trimtab.job/1", "name": name, "world_size": self.ranks, "working_directory": str(ROOT)}
        text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in {**common, **settings}.items())
        out = ["--out", self.folder / "out"] if verb == "tune" else []
        return verb, "--job", self.file(f"{name}.toml", text), "--state", self.state, "--keep-up", *out

    def launches(self):
        """How many costs say what the host takes to launch."""
        rows = csv.DictReader(self.trimtab("db", "export", self._costs).splitlines())
        return sum(row["algorithm"] == "launch" for row in rows)

    def predicted_ms(self, plan, measured=()):
        """Of a step, corrected by those measured."""
        words = ["--allow-estimates"]
        if measured:
            lines = [json.dumps({"plan": row["document"], "step_s": row["measured_ms"] / 1e3}) + "\n" for row in measured]
            words += ["--measured", self.file("measured.jsonl", "".join(lines))]
        return self.evaluated(plan, *words)["iteration_ms"]

    def evaluated(self, plan, *words):
        """The prediction, as a document."""
        return json.loads(self.trimtab("evaluate", "--model", self._model, "--cluster", self.folder / "cluster.json", "--costs",
                                       self._costs, "--plan", self.file("asked.json", plan), *words, "--json"))

    def close(self):
        subprocess.run([str(self._trimtab), "down", "--state", str(self.state)], capture_output=True, timeout=30, check=False)


def cluster(nodes, devices):
    """Of so many nodes of so many devices."""
    return {"schema": "trimtab.cluster/1", "links": [{"level": "intra_node"}, {"level": "inter_node"}][:nodes],
            "nodes": [{"name": f"node{number}", "devices": devices, "memory_bytes": ROOMY} for number in range(nodes)]}


KNOBS = ("pipeline", "uneven_stages", "microbatch", "data_parallel", "recompute", "tensor_parallel")


def shares_of(ranks):
    """Of a step's time, the mean of the ranks that tell: parts of its shares, and what idling and communication were for."""
    told = [{**rank["shares"], **rank.get("parts", {})} for rank in ranks if rank.get("shares")]
    return {part: statistics.fmean(one.get(part, 0) for one in told) for part in told[0] if part != "stage"} if told else {}


def held_to(job, kinds, run, device):
    """{kind: {plan's name: plan}}, each measured by run(name, plan) as observed() does; the section's result."""
    result = {"predictions": {}, "launch_costs": job.launches()}
    if device == "cuda" and result["launch_costs"] == 0:
        raise Failed("the benchmark measured no launches: launches and device work have one clock", result)
    for kind, plans in kinds.items():
        rows = []
        for name, plan in plans.items():
            measured, shares = run(name, plan)
            rows.append({"plan": name, "document": plan, "measured_ms": measured, "shares": shares})
        for row in rows:
            row["before_ms"] = job.predicted_ms(row["document"])
            row["after_ms"] = job.predicted_ms(row["document"], [other for other in rows if other is not row])
        result["predictions"][kind] = {"rows": rows, "errors": {when: error(rows, f"{when}_ms") for when in AIMS}}
    return judged(result)


def error(rows, which):
    """The mean, as a share of what was measured."""
    return statistics.fmean(abs(row[which] / row["measured_ms"] - 1) for row in rows)


def judged(result):
    """The result; raises Failed where what was learnt makes predictions worse."""
    worse = [f"{kind}: {100 * one['errors']['after']:.1f} % off after calibration, {100 * one['errors']['before']:.1f} % before"
             for kind, one in result["predictions"].items() if one["errors"]["after"] > one["errors"]["before"]]
    if worse:
        raise Failed("; ".join(worse), result)
    return result


def reference(installation, inherited, budget, *, ranks=1, device="cuda", config=ROOT / "examples/gpt-gpu/gpt.toml", batch=BATCH,
              microbatches=None):
    """The reference trainer: one rank, or two that share the GPU as tensor-parallel ranks and as stages."""
    job = Job(installation, inherited, budget, f"predicted-{ranks}", ranks, device)
    try:
        config = with_batch(job, config, batch)
        model = child.run(["python3", "trainer/describe.py", "--config", config], budget, environment=job.environment, directory=ROOT)
        place = "cuda:0" if device == "cuda" else device  # All ranks share the first GPU.
        apart = [f"{name}={value}" for name, value in arms.own_host("{rank}").items()] if ranks > 1 else []

        def program(name, *words):
            return ["env", *apart, "python3", f"trainer/{name}", "--config", str(config), "--device", place, "--rank", "{rank}",
                    "--local-rank", "{local_rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}", *words]

        job.profile(model, program("benchmark.py", "--requests", "{requests}"),
                    ("microbatch", "recompute", *(("pipeline", "tensor_parallel") if ranks > 1 else ())))
        sizes = microbatches or (MICROBATCHES if ranks == 1 else TOGETHER)
        return held_to(job, reference_plans(json.loads(model), ranks, sizes), lambda name, plan: job.observed(
            name, program("train.py", "--plan", job.file(f"{name}.json", plan), "--steps", "{steps}")), device)
    finally:
        job.close()


def with_batch(job, config, batch):
    """The model's file with this global batch."""
    text = pathlib.Path(config).read_text(encoding="utf-8")
    return job.file("gpt.toml", text.replace(f"global_batch = {tomllib.loads(text)['global_batch']}", f"global_batch = {batch}"))


def reference_plans(model, ranks, sizes):
    count = len(model["operators"])
    cut = count // 2
    layouts = {"one rank": [([0], [0, count], 1)]}
    if ranks > 1:
        layouts = {"tp 2": [([0, 1], [0, count], 2)], "pp 2": [([0], [0, cut], 1), ([1], [cut, count], 1)]}
    return {kind: {f"{kind.replace(' ', '')}-mb{size}{'-recompute' * again}": plan_of(model, size, stages, again)
                   for size in sizes for again in (True, False)} for kind, stages in layouts.items()}


def plan_of(model, microbatch, stages, again):
    """Stages of (devices, operators, tensor-parallel ranks). Recomputed: all but the first operator and the last."""
    inner = [1, len(model["operators"]) - 1]
    return {"schema": "trimtab.plan/1", "model": model["name"], "global_batch": model["global_batch"], "microbatch": microbatch,
            "stages": [{"devices": devices, "segments": [{"operators": part, "dp": 1, "tp": tp, "recompute": [
                [max(part[0], inner[0]), min(part[1], inner[1])]] if again else []}]} for devices, part, tp in stages]}


def of_megatron(installation, inherited, budget, source, *, device="cuda", plans=MEGATRON_PLANS):
    """Megatron-LM on one rank."""
    source = megatron_runs.ready(source, inherited, budget)
    job = Job(installation, inherited, budget, "predicted-megatron", 1, device)
    try:
        words = [*megatron_runs.MODEL, "--global-batch-size", str(megatron_runs.BATCH)]
        model = job.trimtab("model", "extract", "--megatron", job.file("arguments.txt", " ".join(words)), "--name", job.name)
        job.environment["PYTHONPATH"] = f"{ROOT / 'client/python'}:{inherited.get('PYTHONPATH', '')}"
        job.profile(model, ["python3", "-m", "trimtab.megatron_benchmark", "--device", device, "--requests", "{requests}", "--rank",
                            "{rank}", "--local-rank", "{local_rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}"],
                    ("microbatch", "recompute"), target="megatron", delivery="restart", allow_restarts=True)
        document = json.loads(model)
        stages = [([0], [0, len(document["operators"])], 1)]
        named = {f"mb{size}{'-recompute' * again}": plan_of(document, size, stages, again) for size, again in plans}
        return held_to(job, {"megatron": named}, lambda name, plan: job.observed(
            name, megatron_words(job, source, name, plan), delivery="restart"), device)  # It is stopped by SIGTERM.
    finally:
        job.close()


def megatron_words(job, source, name, plan):
    out = job.folder / f"{name}.arguments"
    job.trimtab("plan", "export", job.file(f"{name}.json", plan), "--to", "megatron", "--model", job.folder / "model.json", "--out", out)
    return ["env", *(f"{key}={value}" for key, value in megatron_runs.environment().items()), "python3", "-m", "trimtab.megatron",
            source / "pretrain_gpt.py", *out.read_text(encoding="utf-8").split(), *megatron_runs.MODEL, *megatron_runs.USUAL,
            "--exit-interval", "{steps}"]
