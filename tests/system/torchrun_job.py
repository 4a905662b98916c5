"""The torchrun example's job, made long and its blocks short, with its checkpoint in a test's own directory."""

import json
import re

from installation import ROOT

EXAMPLE = ROOT / "examples" / "torchrun-ddp"


def write_torchrun_job(directory, changes, plan=None):
    """Path of job.toml in `directory`. `changes`: new text by what it replaces, a pattern that matches once; `plan`: the initial one."""
    text = (EXAMPLE / "job.toml").read_text(encoding="utf-8")
    common = {r"^checkpoint = .*$": f'checkpoint = "{directory}/saved"', r"^working_directory = .*$": f'working_directory = "{ROOT}"',
              r"^steps = .*$": "steps = 1000000", r"^measure_steps = .*$": "measure_steps = 6", r"^warmup_steps = .*$": "warmup_steps = 3",
              r"^max_trials = .*$": "max_trials = 1", r"^walltime_s = .*$": "walltime_s = 1000000"}
    for pattern, value in {**common, **changes}.items():
        text, count = re.subn(pattern, value, text, flags=re.MULTILINE)
        assert count == 1, f"{pattern} stands {count} times in the example's job.toml"
    (directory / "initial.json").write_text(json.dumps(plan or initial_plan()), encoding="utf-8")
    path = directory / "job.toml"
    path.write_text(text, encoding="utf-8")
    return path


def initial_plan():
    return json.loads((EXAMPLE / "initial.json").read_text(encoding="utf-8"))
