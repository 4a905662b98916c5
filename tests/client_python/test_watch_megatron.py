"""The hooks of Megatron-LM, on a program of its shape: tests/frameworks runs the real one where its sources are."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from watched_job import HAS_TORCH, WatchedJobTest

FIRST = 7
# As Megatron Core's schedules do, which free an output's memory and so cannot use torch.autograd.backward.
SCHEDULES = """
import torch
from torch.autograd import Variable

def custom_backward(output, grad_output):
    if grad_output is None:
        grad_output = torch.ones_like(output)
    Variable._execution_engine.run_backward((output,), (grad_output,), False, False, (), allow_unreachable=True, accumulate_grad=True)
"""
TRAINING = """
import types
import torch
from megatron.core.pipeline_parallel import schedules
from megatron.core.num_microbatches_calculator import get_num_microbatches

ARGS = types.SimpleNamespace(iteration=7, curr_iteration=7, micro_batch_size=8, seq_length=64, tensor_model_parallel_size=2,
                             context_parallel_size=1, pipeline_model_parallel_size=4)

def get_args():
    return ARGS

def train_step(forward, batches, model, optimizer):
    losses = []
    for _ in range(get_num_microbatches()):
        loss = forward(batches, model)
        losses.append(loss.item())
        schedules.custom_backward(loss / get_num_microbatches(), None)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return {"lm loss": sum(losses) / len(losses)}, 0, False, False, 0, norm, None, None

def train(steps, *what):
    told = []
    for _ in range(steps):
        returned = train_step(*what)
        ARGS.curr_iteration += 1
        told.append((returned[0]["lm loss"], returned[5].item()))
    return told
"""
CALCULATOR = "def get_num_microbatches():\n    return 3\n"
STATE = "def get_pipeline_model_parallel_rank():\n    return 3\n"
SCRIPT = """
import json
from megatron.core import parallel_state
from megatron.training import training

def forward(batches, model):
    inputs, targets = next(batches)
    return loss_of(model(inputs), targets)

model = mlp()
batches = iter(DataLoader(samples(8 * 3 * 6), batch_size=8))
print(json.dumps(training.train(6, forward, batches, model, torch.optim.SGD(model.parameters(), lr=0.01))))
"""


@unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
class Megatron(WatchedJobTest):
    def train(self):
        for package in ("megatron", "megatron/core", "megatron/core/pipeline_parallel", "megatron/training"):
            self.write(f"{package}/__init__.py", "")
        self.write("megatron/core/pipeline_parallel/schedules.py", SCHEDULES)
        self.write("megatron/core/num_microbatches_calculator.py", CALCULATOR)
        self.write("megatron/core/parallel_state.py", STATE)
        self.write("megatron/training/training.py", TRAINING)
        return self.run_job(SCRIPT)

    def test_steps_are_its_iterations_and_backward_passes_its_schedules(self):
        job = self.train()
        steps = job.steps()
        self.assertEqual([step["step"] for step in steps], list(range(FIRST, FIRST + 6)))
        self.assertEqual({(step["count"], step["tokens"], step["microbatches"]) for step in steps}, {(24, 24 * 64, 3)})
        for step, (loss, norm) in zip(steps, json.loads(job.output)):
            self.assertAlmostEqual(step["loss"], loss, places=5)
            self.assertAlmostEqual(step["gradient_norm"], norm, places=5)
            for name in ("forward", "backward", "optimizer"):
                self.assertGreater(step["parts"][f"{name}_ns"], 0, name)

    def test_where_the_rank_stands_in_the_plan(self):
        facts = self.train().facts()
        self.assertEqual({name: facts.get(name) for name in ("framework", "batch_size", "sequence_length", "tensor_parallel",
                                                             "context_parallel", "stages", "stage")},
                         {"framework": "megatron", "batch_size": 8, "sequence_length": 64, "tensor_parallel": 2, "context_parallel": 1,
                          "stages": 4, "stage": 3})


if __name__ == "__main__":
    unittest.main()
