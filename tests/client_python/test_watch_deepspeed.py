"""The hooks of DeepSpeed's engine, on an engine of its shape: tests/frameworks runs the real one where it is installed."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from watched_job import HAS_TORCH, WatchedJobTest

# As its ZeRO optimizers do: torch's own has none of the model's parameters, the loss is scaled, and a function is compiled at import.
ENGINE = """
import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters

SCALE = 1024.0

@torch.jit.script
def squeeze(x: torch.Tensor):
    return x / 1024.0

class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, module, accumulation, managed):
        super().__init__()
        self.module, self.accumulation, self.managed = module, accumulation, managed
        self.global_steps = self.micro_steps = 0
        self.running = False
        self.flat = [torch.nn.Parameter(parameters_to_vector(module.parameters()).detach())]
        self.optimizer = torch.optim.SGD(self.flat, lr=0.01)
        self.flat[0].grad = torch.zeros_like(self.flat[0])
        self.optimizer.step()  # As FP16_Optimizer makes its state. It is no step of the training.

    def forward(self, *inputs):
        return self.module(*inputs)

    def is_gradient_accumulation_boundary(self):
        return (self.micro_steps + 1) % self.accumulation == 0 if self.managed else self.running

    def backward(self, loss):
        (loss / self.accumulation * SCALE).backward()

    def step(self):
        self.running = True
        if self.is_gradient_accumulation_boundary():
            self.flat[0].grad = squeeze(parameters_to_vector([one.grad for one in self.module.parameters()]))
            self.optimizer.step()
            vector_to_parameters(self.flat[0].detach(), self.module.parameters())
            self.module.zero_grad()
            self.global_steps += 1
        self.running = False
        self.micro_steps += 1
"""
SCRIPT = """
import json
from deepspeed.runtime.engine import DeepSpeedEngine

managed = sys.argv[1] == "managed"
engine = DeepSpeedEngine(mlp(), 2, managed)
losses = []
for number, (inputs, targets) in enumerate(DataLoader(samples(96), batch_size=8)):
    loss = loss_of(engine(inputs), targets)
    engine.backward(loss)
    if managed or number % 2:
        engine.step()
    losses.append(loss.item())
print(json.dumps([(one + other) / 2 for one, other in zip(losses[::2], losses[1::2])]))
"""


@unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
class Engine(WatchedJobTest):
    def train(self, how):
        for package in ("deepspeed", "deepspeed/runtime"):
            self.write(f"{package}/__init__.py", "")
        self.write("deepspeed/runtime/engine.py", ENGINE)
        return self.run_job(SCRIPT, arguments=(how,))

    def test_steps_and_losses_are_the_engines(self):
        """Also where only step() knows that it is the last of the microbatches."""
        for how in ("managed", "unmanaged"):
            with self.subTest(how=how):
                job = self.train(how)
                steps = job.steps()
                self.assertEqual([step["step"] for step in steps], list(range(6)))
                self.assertEqual({(step["count"], step["microbatches"]) for step in steps}, {(16, 2)})
                for step, own in zip(steps, json.loads(job.output)):
                    self.assertAlmostEqual(step["loss"], own, places=5)

    def test_the_model_is_the_engines(self):
        facts = self.train("managed").facts()
        self.assertEqual((facts["framework"], facts["parameters"], facts["layers"], facts["dtype"], facts["accumulation"]),
                         ("deepspeed", 3 * (64 * 64 + 64) + 64 * 10 + 10, 3, "float32", 2))
        self.assertTrue(facts["shapes"])
        self.assertNotIn("compiled", facts)  # What it compiles for itself is not the model.


if __name__ == "__main__":
    unittest.main()
