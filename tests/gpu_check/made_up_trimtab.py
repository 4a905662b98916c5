#!/usr/bin/python3 -SE
"""In the place of trimtab where sections about predictions are rehearsed. A step takes 100 ms and 40 ms for each microbatch;
MADE_UP_COSTS and MADE_UP_LEARNT are the factors by which it is predicted wrongly, before other plans were measured and after."""
import json
import os
import pathlib
import sys
import tomllib

words = sys.argv[1:]


def given(flag):
    return words[words.index(flag) + 1]


def evaluate():
    plan = json.loads(pathlib.Path(given("--plan")).read_text())
    measured = [json.loads(line) for line in pathlib.Path(given("--measured")).read_text().splitlines()] if "--measured" in words else []
    assert all(one["plan"] != plan and one["step_s"] > 0 for one in measured), "a plan corrects its own prediction"
    factor = float(os.environ["MADE_UP_LEARNT" if measured else "MADE_UP_COSTS"])
    return json.dumps({"iteration_ms": factor * (100 + 40 * plan["global_batch"] / plan["microbatch"])})


def profile():
    job()
    costs = pathlib.Path(given("--state")) / "coordinator" / "costs.db"
    costs.parent.mkdir(parents=True)
    costs.touch()
    return ""


def job():
    return tomllib.loads(pathlib.Path(given("--job")).read_text())


def top():
    """Of the job that tune has run."""
    train = json.loads((pathlib.Path(given("--state")) / "train.json").read_text())
    assert train[train.index("--exit-interval") + 1] == "{steps}" and "WORLD_SIZE=1" in train and "--bf16" in train
    measured = 100 + 40 * 16 / int(train[train.index("--micro-batch-size") + 1])
    ranks = [{"shares": {"computation": 0.7, "idle": 0.3}, "parts": {"stage": 0, "launch_bound": 0.2}},
             {"shares": {"computation": 0.5, "idle": 0.5}, "parts": {"stage": 0, "launch_bound": 0.4}}, {}]
    return json.dumps({"job": {"initial": {"measured_ms": measured}}, "live": {"ranks": ranks}})


def tune():
    assert job()["mode"] == "observe" and job()["steps"] > 0
    (pathlib.Path(given("--state")) / "train.json").write_text(json.dumps(job()["commands"]["train"]))
    return ""


def export_plan():
    pathlib.Path(given("--out")).write_text(f"--micro-batch-size {json.loads(pathlib.Path(words[2]).read_text())['microbatch']}\n")
    return ""


ANSWERS = {
    "evaluate": evaluate,
    "profile": profile,
    "db": lambda: "kind,algorithm\nforward,\nforward," + os.environ.get("MADE_UP_CLOCKS", "launch") + "\n",
    "tune": tune,
    "top": top,
    "job": lambda: "",
    "model": lambda: json.dumps({"name": "m", "global_batch": 16, "operators": [{}] * 26}),
    "plan": export_plan,
    "down": lambda: "",
}
print(ANSWERS[words[0]]())
