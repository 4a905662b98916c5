"""The overlap slowdowns of this GPU, measured by trimtab-gpu-bench for this model's shapes and passed on.

One GPU has no collective to disturb a computation with; that program has kernels that stand for one.
"""
import json
import subprocess
import tempfile

import torch

from describe import model_document


def lines_of(program, config, samples, gpu):
    """The program's cost lines as (cost, values); raises OSError or RuntimeError where it cannot be run or fails."""
    torch.cuda.empty_cache()  # It needs memory beside this process.
    with tempfile.NamedTemporaryFile("w", suffix=".json") as model:
        json.dump(model_document(config), model)
        model.flush()
        words = [program, "overlap", "--model", model.name, "--samples", str(samples), "--gpu", str(gpu)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{program} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return costs_in(done.stdout)


def costs_in(output):
    """[(cost, values)] of a benchmark command's output; other lines are passed over."""
    found = []
    for line in output.splitlines():
        document = json.loads(line) if line.startswith("{") else {}
        if "cost" in document:
            found.append((document["cost"], document["values"]))
    return found
