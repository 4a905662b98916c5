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
# Of interleaved stages: two parts of the model on one rank, each with a backward pass of its own.
TRAINING = """
import time
import types
import torch
from megatron.core.pipeline_parallel import schedules
from megatron.core.num_microbatches_calculator import get_num_microbatches

ARGS = types.SimpleNamespace(iteration=7, curr_iteration=7, micro_batch_size=8, seq_length=64, tensor_model_parallel_size=2,
                             context_parallel_size=1, pipeline_model_parallel_size=4)

def get_args():
    return ARGS

class Optimizer:
    def __init__(self, parts):
        self.parameters = [parameter for part in parts for parameter in part.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.01)

    def step(self):
        time.sleep(0.005)
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return norm

def train_step(forward, batches, model, optimizer):
    losses = []
    for _ in range(get_num_microbatches()):
        inputs, targets = next(batches)
        output = model[0](inputs)
        received = output.detach().requires_grad_()
        loss = forward(model[1](received), targets)
        losses.append(loss.item())
        schedules.custom_backward(loss / get_num_microbatches(), None)
        schedules.custom_backward(output, received.grad)
    return {"lm loss": sum(losses) / len(losses)}, 0, False, False, 0, optimizer.step(), None, None

def evaluate_and_print_results():
    time.sleep(0.02)

def train(steps, *what):
    told = []
    for _ in range(steps):
        returned = train_step(*what)
        ARGS.curr_iteration += 1
        told.append((returned[0]["lm loss"], returned[5].item()))
        evaluate_and_print_results()
    return told
"""
CALCULATOR = "def get_num_microbatches():\n    return 3\n"
STATE = "def get_pipeline_model_parallel_rank():\n    return 3\n"
SCRIPT = """
import json
from megatron.core import parallel_state
from megatron.training import training

class Part(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.decoder = nn.Module()
        self.decoder.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.decoder.layers:
            x = layer(x)
        return x

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.experts = nn.Linear(64, 64)
        self.norms = nn.Sequential(nn.LayerNorm(64), nn.LayerNorm(64))

    def forward(self, x):
        return self.norms(self.experts(x))

vars(training.ARGS).update(json.loads(sys.argv[1]))
model = [Part(Layer()), Part(Layer())]
batches = iter(DataLoader(samples(8 * 3 * 6), batch_size=8))
print(json.dumps(training.train(6, loss_of, batches, model, training.Optimizer(model))))
"""
LAYER = (64 * 64 + 64, 4 * 64)  # Parameters of its experts and of its norms.


@unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
class Megatron(WatchedJobTest):
    def train(self, **arguments):
        for package in ("megatron", "megatron/core", "megatron/core/pipeline_parallel", "megatron/training"):
            self.write(f"{package}/__init__.py", "")
        self.write("megatron/core/pipeline_parallel/schedules.py", SCHEDULES)
        self.write("megatron/core/num_microbatches_calculator.py", CALCULATOR)
        self.write("megatron/core/parallel_state.py", STATE)
        self.write("megatron/training/training.py", TRAINING)
        return self.run_job(SCRIPT, arguments=(json.dumps(arguments),))

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
            self.assertGreater(step["parts"]["optimizer_ns"], 5e6)
        self.assertTrue(all(step["parts"]["aside_ns"] >= 20e6 for step in steps[1:]))  # Behind the step before.

    def test_where_the_rank_stands_in_the_plan(self):
        facts = self.train().facts()
        self.assertEqual({name: facts.get(name) for name in ("framework", "batch_size", "sequence_length", "tensor_parallel",
                                                             "context_parallel", "stages", "stage")},
                         {"framework": "megatron", "batch_size": 8, "sequence_length": 64, "tensor_parallel": 2, "context_parallel": 1,
                          "stages": 4, "stage": 3})

    def test_the_parts_of_a_rank_are_one_model(self):
        facts = self.train(recompute_granularity="full", recompute_method="block", recompute_num_layers=1).facts()
        expected = {"virtual_stages": 2, "layers": 2, "checkpointed_layers": 2, "parameters": 2 * sum(LAYER), "accumulation": 3,
                    "active_parameters": None}
        self.assertEqual({name: facts.get(name) for name in expected}, expected)

    def test_the_experts_that_a_token_passes(self):
        """4 ranks hold 16 experts, each of them 4, of which a token passes 2: of all ranks' experts the eighth part. Parts of layers that
        are recomputed are no layers."""
        facts = self.train(num_experts=16, moe_router_topk=2, expert_model_parallel_size=4, tensor_model_parallel_size=1,
                           recompute_granularity="selective").facts()
        self.assertEqual((facts["expert_parallel"], facts["parameters"], facts["active_parameters"], facts["checkpointed_layers"]),
                         (4, 2 * sum(LAYER), LAYER[0] + 2 * LAYER[1], 0))


if __name__ == "__main__":
    unittest.main()
