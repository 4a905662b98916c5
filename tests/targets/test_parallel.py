"""The file of PyTorch's data parallelism, read by the client: what is wrong is named, nothing is lost silently."""
import contextlib
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import torch  # noqa: E402
from trimtab import parallel  # noqa: E402

GOOD = {"schema": "trimtab.parallel/1", "kind": "fsdp", "world_size": 4, "global_batch": 32,
        "samples_per_microbatch": 4, "accumulation_steps": 2, "layers": 3, "checkpoint_layers": [0],
        "sharding_strategy": "FULL_SHARD", "shard_group_size": 4}


class Parse(unittest.TestCase):
    def refuse(self, words, **changes):
        given = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
        with self.assertRaisesRegex(parallel.BadConfiguration, words):
            parallel.parse(json.dumps(given), "fsdp.json")

    def test_a_good_one(self):
        made = parallel.parse(json.dumps(GOOD), "fsdp.json")
        self.assertEqual(made.samples_per_rank, 8)
        self.assertEqual(made.sharding_strategy, "FULL_SHARD")

    def test_what_is_wrong_is_named(self):
        self.refuse("schema", schema="trimtab.parallel/2")
        self.refuse("kind", kind="horovod")
        self.refuse("not the global batch of 33", global_batch=33)
        self.refuse("fsdp.json: weather", weather="fine")
        self.refuse("accumulation_steps", accumulation_steps=None)
        with self.assertRaisesRegex(parallel.BadConfiguration, "no JSON"):
            parallel.parse("{", "fsdp.json")
        with self.assertRaisesRegex(parallel.BadConfiguration, "cannot read /nowhere"):
            parallel.load("/nowhere")


class Samples(unittest.TestCase):
    def test_trees_are_cut_along_the_samples(self):
        batch = {"x": torch.arange(6), "more": (torch.arange(12).reshape(6, 2), [torch.ones(6)])}
        parts = parallel.split_samples(batch, 2)
        self.assertEqual(len(parts), 3)
        self.assertEqual(parts[1]["x"].tolist(), [2, 3])
        self.assertEqual(parts[2]["more"][0].tolist(), [[8, 9], [10, 11]])
        self.assertEqual([part["x"].tolist() for part in parallel.split_samples(batch, 4)], [[0, 1, 2, 3], [4, 5]])


class NoDaemon:
    """A client whose agent is not there."""
    measuring = 0
    stop_requested = False
    epoch = 0
    runs_incumbent = True

    def __init__(self):
        self.steps = []
        self.out_of_memory_at = []

    def begin(self, step, phases):
        self.begun_at = step

    def next_plan(self, step, agree, validate):
        agree(self.epoch)

    def step(self, step, **told):
        self.steps.append({"step": step, **told})

    @contextlib.contextmanager
    def range(self, name, payload=0):
        yield

    def out_of_memory(self, error):
        self.out_of_memory_at.append((len(self.steps), str(error)))

    def close(self):
        pass


class AskedToEnd(unittest.TestCase):
    """One rank, by itself."""

    def setUp(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))
        self.killed = []
        signal.signal(signal.SIGTERM, lambda *_: self.killed.append(True))  # in place of an end
        alone = {"kind": "ddp", "world_size": 1, "global_batch": 2, "samples_per_microbatch": 2, "accumulation_steps": 1,
                 "checkpoint_layers": []}
        given = {name: value for name, value in {**GOOD, **alone}.items() if not name.startswith("shard")}
        self.client = NoDaemon()
        self.run_of = parallel.Run(parallel.parse(json.dumps(given), "ddp.json"), self.client)
        self.model = torch.nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def train(self, steps, asked_at=None):
        done = []
        for step in self.run_of.steps(0, steps):
            if step == asked_at:
                os.kill(os.getpid(), signal.SIGTERM)
            self.run_of.step(self.model, self.optimizer, torch.ones(2, 2), lambda model, x: model(x).mean())
            done.append(step)
        return done

    def test_it_ends_after_the_step_and_a_second_signal_does_not_reach_what_saves(self):
        self.assertEqual(self.train(10, asked_at=2), [0, 1, 2])
        self.assertTrue(self.run_of.stopped)
        os.kill(os.getpid(), signal.SIGTERM)  # torchrun passes on what reached its process group
        self.assertEqual(self.killed, [])

    def test_gradients_are_clipped_where_that_is_asked_for_and_their_norm_is_told(self):
        before = [parameter.detach().clone() for parameter in self.model.parameters()]
        for step in self.run_of.steps(0, 1):
            self.run_of.step(self.model, self.optimizer, torch.ones(2, 2), lambda model, x: 30 * model(x).mean(), 0.5)
        moved = torch.cat([(a - b).flatten() for a, b in zip(before, self.model.parameters())]).norm().item()
        self.assertAlmostEqual(moved, 0.1 * 0.5, places=5)
        self.assertAlmostEqual(self.client.steps[0]["gradient_norm"], 30 * 3 ** 0.5, places=3)
        self.assertIsNone(self.train(1) and self.client.steps[1]["gradient_norm"])

    def test_a_step_that_runs_out_of_memory_is_told_as_such_and_raised(self):
        def loss_of(raised):
            def loss(model, part):
                if len(self.client.steps) == 1:
                    raise raised
                return model(part).mean()
            return loss

        for raised, told in ((torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
                             (MemoryError(), True), (RuntimeError("a NaN"), False)):
            with self.subTest(raised=raised):
                self.client.__init__()
                with self.assertRaises(type(raised)):
                    for _ in self.run_of.steps(0, 3):
                        self.run_of.step(self.model, self.optimizer, torch.ones(2, 2), loss_of(raised))
                self.assertEqual(self.client.out_of_memory_at, [(1, str(raised))] if told else [])

    def test_a_run_that_nobody_ended_leaves_the_signal_as_it_was(self):
        self.assertEqual(self.train(3), [0, 1, 2])
        os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(self.killed, [True])


if __name__ == "__main__":
    unittest.main()
