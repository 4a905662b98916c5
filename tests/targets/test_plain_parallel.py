"""An integrated script runs without Trimtab, and with what real scripts use."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python"))
sys.path.append(str(ROOT / "tests" / "trainer"))

import plain_job  # noqa: E402
import torch  # noqa: E402
from fake_agent import FakeAgent  # noqa: E402
from rank_programs import Program  # noqa: E402
from trimtab import parallel  # noqa: E402
from test_parallel import NoDaemon  # noqa: E402


def plainly():
    """What plain_job.py trains, without a line of Trimtab's: the losses, and the weights."""
    torch.manual_seed(3)
    model = plain_job.Model()
    optimizer = torch.optim.AdamW(plain_job.groups(model), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    losses = []
    for _ in range(plain_job.EPOCHS):
        for x, y in torch.utils.data.DataLoader(plain_job.dataset(), batch_size=8):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    return losses, [v for tensor in model.state_dict().values() for v in tensor.flatten().tolist()]


class Script(unittest.TestCase):
    """plain_job.py as a user starts it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, ranks, **more):
        """What each process says. No TRIMTAB_* but what is given."""
        bare = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB")}
        bare.update({"PYTHONPATH": str(ROOT / "client" / "python"), "OMP_NUM_THREADS": "1", **more})
        started = []
        for rank in range(ranks or 1):
            of_rank = {"RANK": str(rank), "WORLD_SIZE": str(ranks)} if ranks else {}
            words = [pathlib.Path(__file__).with_name("plain_job.py"), f"file://{self.folder}/rendezvous", self.folder / f"{rank}.json"]
            started.append(Program(list(map(str, words)), self.folder / str(rank), {**bare, **of_rank}))
        ends = [(process.communicate(timeout=120)[1], process.returncode) for process in started]
        self.assertEqual([code for _, code in ends], [0] * len(ends), ends)
        return [json.loads((self.folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(len(started))]

    def assert_trained_plainly(self, said):
        losses, weights = plainly()
        for rank in said:
            self.assertEqual(rank["steps"], len(losses))
            for ours, theirs in zip(rank["losses"] + rank["weights"], losses + weights, strict=True):
                self.assertAlmostEqual(ours, theirs, places=5)

    def test_alone_without_a_group_a_plan_or_an_agent(self):
        said = self.start(0)
        self.assertEqual((said[0]["kind"], said[0]["optimizer"]), ("Model", "AdamW"))
        self.assert_trained_plainly(said)

    def test_two_ranks_without_a_plan_are_plain_ddp(self):
        said = self.start(2)
        self.assertEqual(said[0]["kind"], "DistributedDataParallel")
        self.assert_trained_plainly(said)

    def test_two_ranks_measure_again_between_two_steps_and_train_the_same(self):
        items = [{"kind": "collective", "primitive": primitive, "bytes": 4096, "group_size": 2, "expected_ns": 1000000}
                 for primitive in ("all_reduce", "reduce_scatter")]
        refused = [{"kind": "collective", "primitive": "all_reduce", "bytes": 64, "group_size": 4, "expected_ns": 1},
                   {"kind": "operator", "cost_key": "layer", "samples": 1, "expected_ns": 1}]
        agent = FakeAgent(str(self.folder / "agent.sock"),
                          {"type": "measure", "number": 7, "bound_ms": 1000, "items": items + refused})
        self.addCleanup(agent.close)
        said = self.start(2, TRIMTAB_SOCKET=agent.path, TRIMTAB_JOB="plain")
        self.assert_trained_plainly(said)
        told = [message for _, message in agent.of("measured", number=7)]
        self.assertEqual((len(told), len({one["step"] for one in told})), (2, 1), "both before the same step, once")
        for one in told:
            answers = {answer["item"]: answer for answer in one["items"]}
            self.assertGreater(min(answers[0]["values"][0] + answers[1]["values"][0]), 0)
            self.assertIn("groups are of all 2 ranks here", answers[2]["error"])
            self.assertIn("operator items are not measured", answers[3]["error"])

    def test_the_same_script_under_a_plan(self):
        plan = self.folder / "ddp.json"
        plan.write_text(json.dumps({"schema": "trimtab.parallel/1", "kind": "ddp", "world_size": 2, "global_batch": 8,
                                    "samples_per_microbatch": 4, "accumulation_steps": 1, "layers": 2, "checkpoint_layers": [1],
                                    "zero_redundancy_optimizer": True}), encoding="utf-8")
        said = self.start(2, TRIMTAB_TARGET_CONFIG=str(plan))
        self.assertEqual(said[0]["optimizer"], "ZeroRedundancyOptimizer")
        self.assert_trained_plainly(said)


class Scaler:
    """Says what was asked of it. Its steps are taken but for those of infinite gradients, as a GradScaler's are."""

    def __init__(self):
        self.asked = []

    def scale(self, loss):
        self.asked.append("scale")
        return loss * 8

    def unscale_(self, optimizer):
        self.asked.append("unscale_")
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad /= 8

    def step(self, optimizer):
        self.asked.append("step")
        if all(torch.isfinite(p.grad).all() for group in optimizer.param_groups for p in group["params"]):
            optimizer.step()

    def update(self):
        self.asked.append("update")


class Alone(unittest.TestCase):
    """In this process, without a group."""

    def setUp(self):
        cleared = mock.patch.dict(os.environ)
        cleared.start()
        self.addCleanup(cleared.stop)
        for name in [name for name in os.environ if name.startswith("TRIMTAB") or name == "WORLD_SIZE"]:
            del os.environ[name]
        torch.manual_seed(1)
        self.model = torch.nn.Linear(2, 1)

    def run_of(self, **given):
        made = parallel.load(**given)
        made._client = NoDaemon()
        return made, made.optimizer(made.wrap(self.model), torch.optim.SGD, lr=0.1)

    def test_a_scaler_scales_and_an_infinite_gradient_is_no_plans_fault(self):
        run, optimizer = self.run_of(batch_size=2, gradient_accumulation_steps=2)
        scaler, scales = Scaler(), iter([1.0, float("inf")])
        for _ in run.steps(0, 2):
            factor = next(scales)
            run.step(self.model, optimizer, torch.ones(4, 2), lambda model, x: factor * model(x).mean(), 0.5, scaler)
        self.assertEqual(scaler.asked, ["scale", "scale", "unscale_", "step", "update"] * 2)
        self.assertAlmostEqual(run._client.steps[0]["gradient_norm"], 3 ** 0.5, places=4)
        self.assertIsNone(run._client.steps[1]["gradient_norm"])

    def test_ranges_say_what_a_step_does(self):
        opened = []
        run, optimizer = self.run_of(gradient_accumulation_steps=2)
        run._client.range = lambda name, payload=0: opened.append((name, payload)) or mock.MagicMock()
        for _ in run.steps(7, 8):
            run.step(self.model, optimizer, torch.ones(6, 2), lambda model, x: model(x).mean())
        passes = [("op/microbatch/forward/whole", 3), ("op/microbatch/backward/whole", 3)]
        self.assertEqual(opened, [("step", 7), *passes, *passes, ("optimizer", 0)])

    def test_epochs_number_on_and_end_where_they_are_asked_to(self):
        run, optimizer = self.run_of(batch_size=2)
        told = run._client.steps
        for _ in run.epochs(1, 9, step=6, last_step=10):
            for batch in run.batches([torch.ones(2, 2)] * 3):
                run.step(self.model, optimizer, batch, lambda model, x: model(x).mean())
        self.assertEqual([one["step"] for one in told], [6, 7, 8, 9])
        self.assertEqual(run._client.begun_at, 6)

    def test_batches_that_do_not_fit_are_refused(self):
        run, optimizer = self.run_of(batch_size=2)
        for sizes, words in (((2, 1, 2), "was not the loader's last"), ((3,), r"load\(\) gives it 2")):
            with self.assertRaisesRegex(parallel.BadConfiguration, words):
                for batch in run.batches([torch.ones(size, 2) for size in sizes]):
                    run.step(self.model, optimizer, batch, lambda model, x: model(x).mean())
        with self.assertRaisesRegex(parallel.BadConfiguration, "batch_size"):
            parallel.load().configuration.samples_per_rank
        with self.assertRaisesRegex(parallel.BadConfiguration, "batch_size"):
            parallel.load(batch_size=0)


if __name__ == "__main__":
    unittest.main()
