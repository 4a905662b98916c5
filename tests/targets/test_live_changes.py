"""Another plan between two steps of trimtab.parallel: the script's objects stay, and training goes on as it would have."""
import json
import math
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))

import torch  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook  # noqa: E402
from trimtab import parallel  # noqa: E402
from trimtab.client import Client  # noqa: E402

torch.set_num_threads(1)
WIDTH, LAYERS, BATCH = 128, 4, 8  # a layer of 1 MiB: PyTorch's first bucket, whatever its cap, is of that size
FILE = {"schema": "trimtab.parallel/1", "kind": "ddp", "world_size": 1, "global_batch": BATCH, "samples_per_microbatch": 8,
        "accumulation_steps": 1, "layers": LAYERS, "checkpoint_layers": [0], "zero_redundancy_optimizer": False}
OTHER = {"samples_per_microbatch": 2, "accumulation_steps": 4, "checkpoint_layers": [1, 2], "bucket_cap_mb": 0.5}


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(WIDTH, 8 * WIDTH), torch.nn.Tanh(), torch.nn.Linear(8 * WIDTH, WIDTH))
        self.passes = 0

    def forward(self, x):
        self.passes += 1
        return x + self.inner(x)


def loss_of(model, part):
    return model(part).pow(2).mean()


class Training:
    """One rank under FILE, and the agent's part beside it."""

    def __init__(self, environment=None):
        torch.manual_seed(1)
        self.client = Client(environment or {}, in_target=True)
        self.answers, self.losses = [], []
        self.client._send = lambda message, important=False: self.answers.append(message)
        self.run = parallel.Run(parallel.parse(json.dumps(FILE), "ddp.json"), self.client)
        self.plain = torch.nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.model = self.run.wrap(self.plain, self.plain, gradient_as_bucket_view=True)
        self.optimizer = self.run.optimizer(self.model, torch.optim.AdamW, lr=1e-3)

    def hear(self, epoch, step, incumbent=False, **changes):
        """The agent proposes FILE with these changes, and commits it for a step."""
        self.client._inbox += [{"type": "plan_propose", "epoch": epoch, "plan": {}, "target_config": {**FILE, **changes}, "incumbent": incumbent},
                               {"type": "plan_commit", "epoch": epoch, "step": step}]

    def train(self, steps, loss=loss_of):
        first = self.run.next_step
        for step in self.run.steps(first, first + steps):
            batch = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
            self.losses.append(self.run.step(self.model, self.optimizer, batch, loss))

    def passes(self):
        told = [block.passes for block in self.plain]
        for block in self.plain:
            block.passes = 0
        return told

    def buckets(self):
        return len(str(self.model._get_ddp_logging_data()["rebuilt_bucket_sizes"]).split(","))

    def told(self, kind):
        return [answer for answer in self.answers if answer["type"] == kind]


class LiveChanges(unittest.TestCase):
    def setUp(self):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)

    def test_every_knob_changes_between_two_steps_and_back_and_nothing_else_does(self):
        usual, job = Training(), Training()
        usual.train(9)
        job.train(3)
        self.assertEqual(job.passes(), [2 * 3, 3, 3, 3])
        before, parameters, buckets = vars(job.plain[1]).get("forward"), list(job.model.parameters()), job.buckets()
        seen = []
        job.model.register_forward_hook(lambda *_: seen.append(job.run.next_step))
        job.model.eval()  # the script's own affair, as hooks are
        job.hear(1, step=5, **OTHER)
        job.train(2)
        self.assertEqual((job.client.epoch, job.run.configuration.accumulation_steps), (1, 4))
        job.passes()
        job.train(2)
        self.assertEqual(job.passes(), [4 * 2, 8 * 2, 8 * 2, 4 * 2])
        self.assertGreater(job.buckets(), buckets)
        job.hear(2, step=7, incumbent=True)
        job.train(1)
        self.assertEqual(job.run.configuration, usual.run.configuration)
        job.passes()
        job.train(1)
        self.assertEqual(job.passes(), [2, 1, 1, 1])
        self.assertEqual(job.model.bucket_bytes_cap, usual.model.bucket_bytes_cap)
        self.assertIs(vars(job.plain[1]).get("forward"), before)
        for ours, theirs in zip(job.losses, usual.losses, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)
        self.assertEqual(job.losses[:3], usual.losses[:3])
        self.assertEqual(set(seen), set(range(3, 9)), "its hooks stay")
        self.assertFalse(job.model.training)
        self.assertTrue(job.model.gradient_as_bucket_view, "its arguments, too")
        for ours, theirs in zip(job.model.parameters(), parameters, strict=True):
            self.assertIs(ours, theirs)
        self.assertEqual([(told["epoch"], told["step"]) for told in job.told("plan_active")], [(1, 5), (2, 8)])

    def test_what_takes_a_launch_is_refused_by_name_and_nothing_changes(self):
        job = Training()
        job.train(1)
        cases = (("zero_redundancy_optimizer: False cannot become True", {"zero_redundancy_optimizer": True}),
                 ("global_batch: 8 cannot become 16", {"global_batch": 16, "samples_per_microbatch": 16}),
                 ("kind: 'ddp' cannot become 'fsdp2'", {"kind": "fsdp2"}), ("weather", {"weather": "fine"}))
        for epoch, (words, changes) in enumerate(cases, 1):
            job.hear(epoch, step=0, **changes)
            job.train(1)
            self.assertIn(words, job.told("plan_refuse")[-1]["message"])
        job.client._inbox.append({"type": "plan_propose", "epoch": 9, "plan": {}})  # of an agent that says no more
        job.train(1)
        self.assertEqual(job.told("plan_refuse")[-1]["epoch"], 9)
        self.assertEqual((job.client.epoch, job.run.configuration.samples_per_microbatch), (0, 8))
        self.assertEqual(job.told("plan_ack"), [])

    def test_a_communication_hook_of_the_script_stays_or_its_buckets_do(self):
        job = Training()
        job.model.register_comm_hook(None, allreduce_hook)
        job.train(1)
        job.hear(1, step=0, bucket_cap_mb=0.5)
        job.train(2)
        if hasattr(job.model, "_comm_hooks"):
            self.assertEqual((job.client.epoch, job.model._comm_hooks), (1, [(allreduce_hook, None)]))
        else:
            self.assertIn("communication hook", job.told("plan_refuse")[-1]["message"])

    def test_a_plan_under_which_the_loss_is_lost_is_left(self):
        job = Training()
        job.train(2)
        job.hear(1, step=3, **OTHER)
        job.train(2)
        job.train(1, lambda model, part: loss_of(model, part) * (math.nan if part.shape[0] == 2 else 1))
        self.assertEqual((job.client.epoch, job.run.configuration.samples_per_microbatch), (0, 8))
        failed = job.told("plan_failed")
        self.assertEqual([(told["epoch"], told["reason"]) for told in failed], [(1, "loss")])

    def test_a_thrown_kill_switch_brings_ranks_back_to_what_they_were_launched_with(self):
        with tempfile.TemporaryDirectory() as folder:
            switch, launched = os.path.join(folder, "switch"), pathlib.Path(folder, "ddp.json")
            launched.write_text(json.dumps(FILE), encoding="utf-8")
            job = Training({"TRIMTAB_KILL_SWITCH": switch, "TRIMTAB_TARGET_CONFIG": str(launched), "TRIMTAB_EPOCH": "4"})
            job.hear(5, step=0, **OTHER)
            job.train(2)
            self.assertEqual(job.run.configuration.samples_per_microbatch, 2)
            pathlib.Path(switch).touch()
            job.train(1)
            self.assertEqual((job.client.epoch, job.run.configuration.samples_per_microbatch), (4, 8))


if __name__ == "__main__":
    unittest.main()
