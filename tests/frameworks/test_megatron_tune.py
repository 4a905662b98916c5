"""`trimtab tune` of Megatron-LM's own pretrain_gpt.py by restarts: two Gloo ranks, its distributed checkpoints, its sources from
TRIMTAB_SOURCES. CUDA is replaced, so that no time says anything of a GPU."""
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "client_python"), str(HERE.parent / "system")]

from framework_job import long  # noqa: E402
from installation import ROOT, TRIMTAB, Installation, free_port, wait_until  # noqa: E402
from watched_job import PYTHON  # noqa: E402

SOURCES = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere")) / "Megatron-LM"
STEPS, SAVE = 500, 50
SHAPE = ("--num-layers 4 --hidden-size 128 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 2047 "
         "--transformer-impl local")
TRAINING = (f"--mock-data --tokenizer-type NullTokenizer --num-workers 0 --distributed-backend gloo --no-persist-layer-norm "
            f"--no-gradient-accumulation-fusion --no-masked-softmax-fusion --no-bias-gelu-fusion --no-bias-dropout-fusion --log-interval 1 "
            f"--eval-iters 0 --eval-interval 100000 --lr-decay-style constant --lr 1e-4 --lr-decay-iters {STEPS} --train-iters {STEPS}")
CHECKPOINTS = f"--exit-interval {{steps}} --load {{checkpoint}} --save {{checkpoint}} --save-interval {SAVE} --exit-signal-handler"
# Microbatches of one sample, and every layer recomputed.
INITIAL = {"schema": "trimtab.plan/1", "model": "megatron-cpu", "global_batch": 16, "microbatch": 2,
           "stages": [{"devices": [0, 1], "segments": [{"operators": [0, 10], "dp": 2, "tp": 1, "recompute": [[1, 9]]}]}]}
JOB = """schema = "trimtab.job/1"
name = "megatron-cpu"
mode = "auto"
delivery = "restart"
allow_restarts = true
target = "megatron"
checkpoint = {checkpoint}
world_size = 2
steps = {steps}
walltime_s = 3600
initial_plan = "initial.json"
working_directory = "."

[commands]
describe = {describe}
benchmark = {benchmark}
train = {train}

[environment]
PYTHONPATH = {python_path}
PATH = {path}
MASTER_ADDR = "127.0.0.1"
MASTER_PORT = "{port}"
OPENBLAS_NUM_THREADS = "1"
OMP_NUM_THREADS = "1"

[knobs]
pipeline = false
uneven_stages = false
tensor_parallel = false
sharded = false

[trials]
warmup_steps = 3
measure_steps = 6
blocks = 1
candidates = 1
max_trials = 1
overhead = 1.0
deadline_s = 60
"""


def write_job(folder):
    placeholders = {name: f"{{{name}}}" for name in ("requests", "rank", "local_rank", "world_size", "rendezvous")}
    benchmark = ["/usr/bin/python3", "-m", "trimtab.megatron_benchmark", "--device", "cpu"]
    for name, placeholder in placeholders.items():
        benchmark += ["--" + name.replace("_", "-"), placeholder]
    train = ["env", "RANK={rank}", "LOCAL_RANK={local_rank}", "WORLD_SIZE={world_size}", PYTHON, "-m", "trimtab.megatron",
             str(HERE / "scripts" / "megatron_on_cpu.py"), str(SOURCES / "pretrain_gpt.py"), "{target_arguments}",
             *f"{SHAPE} {TRAINING} {CHECKPOINTS}".split()]
    values = {"checkpoint": str(folder / "saved"), "steps": STEPS, "benchmark": benchmark, "train": train,
              "describe": [str(TRIMTAB), "model", "extract", "--megatron", "arguments.txt", "--name", "megatron-cpu"],
              "python_path": str(ROOT / "client/python"), "path": f"{os.path.dirname(PYTHON)}:{os.environ['PATH']}", "port": free_port()}
    (folder / "arguments.txt").write_text(f"{SHAPE} --global-batch-size 16\n")
    (folder / "initial.json").write_text(json.dumps(INITIAL))
    job = folder / "job.toml"
    job.write_text(JOB.format(**{name: value if name == "port" else json.dumps(value) for name, value in values.items()}))
    return job


@long
@unittest.skipUnless((SOURCES / "megatron").exists() and TRIMTAB.exists(), "TRIMTAB_SOURCES has no Megatron-LM, or trimtab is not built")
class MegatronTune(unittest.TestCase):
    def test_a_better_plan_is_tried_and_no_step_is_lost(self):
        with Installation() as trimtab:
            tune = trimtab.start_tune(write_job(trimtab.directory))
            self.assertEqual(tune.wait(timeout=280), 0, trimtab.tune_log() + trimtab.all_logs())
            log = trimtab.tune_log()
            (trial,) = trimtab.report()["trials"]
            self.assertEqual(trial["state"], "adopted", log + json.dumps(trial))
            self.assertNotIn("trained again", log)
            self.assertIn("--micro-batch-size", log)
            wait_until(lambda: trimtab.get("/v1/jobs/megatron-cpu")["phase"] in ("finished", "stopped", "failed"), "the job's end", 180)
            saved = (trimtab.directory / "saved" / "latest_checkpointed_iteration.txt").read_text()
            self.assertEqual((trimtab.get("/v1/jobs/megatron-cpu")["phase"], saved), ("finished", str(STEPS)), trimtab.all_logs())


if __name__ == "__main__":
    unittest.main()
