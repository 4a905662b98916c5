"""The sections that train under plans, as far as they go without a GPU: DDP in FSDP's place, the trainer on the CPU."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from harness import BIN, HAS_PYTORCH, ManualClock

from gpu_check import plan_checks, report, switch_checks
from gpu_check.installation import Installation
from gpu_check.machine import with_this_python
from gpu_check.sections import Budget, Failed
from gpu_check.trainer import Trainer

TINY = """
name = "tiny"
layers = 2
hidden = 32
heads = 4
sequence = 16
vocabulary = 64
global_batch = 8
learning_rate = 0.001
seed = 3
"""
SMALL = {"GPU_CHECK_WIDTH": "64", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


class PlanChecks(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "bin").mkdir()
        self.installation = Installation(self.folder, "/nowhere", "/nowhere")
        self.environment = with_this_python({**os.environ, **SMALL})

    def need(self, *, program=False):
        if not HAS_PYTORCH:
            self.skipTest(f"{sys.executable} has no PyTorch")
        if program and not (BIN / "trimtab").exists():
            self.skipTest(f"{BIN} lacks trimtab")
        if program:
            os.symlink(BIN / "trimtab", self.folder / "bin" / "trimtab")

    def trainers(self, count):
        log = self.enterContext(open(self.folder / "pytorch.log", "w", encoding="utf-8"))
        started = [Trainer(self.environment, log) for _ in range(count)]
        for one in started:
            self.addCleanup(one.close)
        return started

    def test_exported_plans_train_as_plain_pytorch_on_one_rank_and_on_two(self):
        self.need(program=True)
        result = plan_checks.fsdp(self.trainers(2), self.installation, self.environment, Budget(200), device="cpu", target="ddp")
        self.assertEqual(list(result["worlds"]), ["1", "2"])
        for one in result["worlds"].values():
            self.assertLess(one["loss_difference"], 1e-5)
            self.assertEqual(len(one["losses"]), plan_checks.STEPS)
            self.assertLess(one["losses"][-1], one["losses"][0])
            self.assertEqual(one["strategy"], "DistributedDataParallel")
        # FSDP's files, of the same plans.
        model, budget = self.folder / "fsdp-model.json", Budget(60)
        exported = [json.loads(plan_checks.export(self.installation, model, world, "fsdp", self.environment, budget).read_text())
                    for world in (1, 2)]
        self.assertEqual([one["sharding_strategy"] for one in exported], ["NO_SHARD", "FULL_SHARD"])
        for one in exported:
            self.assertEqual((one["layers"], one["checkpoint_layers"], one["accumulation_steps"]), (plan_checks.LAYERS, [1], 2))

    def test_other_losses_fail_and_the_figures_stay(self):
        class Told:
            def start(self, environment, program, settings):
                self.settings = settings

            def finish(self, budget):
                return {"losses": [1.0, 0.9 + 0.01 * self.settings["world_size"]], "plain_losses": [1.0, 0.91],
                        "peak_bytes": 3 << 20, "plain_peak_bytes": 4 << 20, "asked": "FULL_SHARD", "strategy": "FULL_SHARD"}

        with mock.patch.object(plan_checks, "model_file"), mock.patch.object(plan_checks, "export"):
            with self.assertRaisesRegex(Failed, "2 ranks: losses are 1.1e-02 from those of plain") as failed:
                plan_checks.fsdp([Told(), Told()], self.installation, {}, Budget(10, ManualClock()))
        self.assertEqual(failed.exception.result["worlds"]["1"]["loss_difference"], 0)

    def test_a_loss_that_is_no_number_is_no_parity(self):
        self.assertEqual(plan_checks.difference([1.0, float("nan")], [1.0, 1.0]), float("inf"))
        self.assertAlmostEqual(plan_checks.difference([1.0, 2.2], [1.0, 2.0]), 0.1)

    def test_the_trainer_trains_the_same_with_states_on_the_host(self):
        self.need()
        config = self.folder / "tiny.toml"
        config.write_text(TINY, encoding="utf-8")
        result = plan_checks.offload(self.installation, self.environment, Budget(200), device="cpu", config=config)
        self.assertLess(result["loss_difference"], 1e-6)
        for run in result["offload"].values():
            self.assertEqual(len(run["losses"]), plan_checks.OFFLOAD_STEPS)
            self.assertGreater(run["peak_bytes"], 0)

    def offloaded(self, host):
        runs = [{"losses": [2.0, 1.5], "peak_bytes": 900, "step_ms": 1.0}, host]
        with mock.patch.object(plan_checks, "trained", side_effect=runs):
            return plan_checks.offload(self.installation, {}, Budget(10, ManualClock()))

    def test_states_on_the_host_must_save_memory_and_change_no_loss(self):
        good = {"losses": [2.0, 1.50001], "peak_bytes": 500, "step_ms": 2.0}
        self.assertLess(self.offloaded(good)["loss_difference"], plan_checks.CLOSE)
        with self.assertRaisesRegex(Failed, "took 900 bytes of the device, without 900"):
            self.offloaded({**good, "peak_bytes": 900})
        with self.assertRaisesRegex(Failed, "losses with states on the host are 1.3e-01"):
            self.offloaded({**good, "losses": [2.0, 1.7]})

    def test_the_trainer_trains_the_same_through_live_changes_of_switches(self):
        self.need()
        config = self.folder / "tiny.toml"
        config.write_text(TINY, encoding="utf-8")
        result = switch_checks.switches(self.installation, self.environment, Budget(200), device="cpu", config=config)
        self.assertLess(result["loss_difference"], 1e-5)
        self.assertEqual(list(result["switches"]), ["sharded", "released", "on the host", "pipeline", "sharded again"])
        every = {name for plan in switch_checks.live_plans({"name": "tiny", "layers": 2, "global_batch": 8}).values()
                 for stage in plan["stages"] for name in stage["segments"][0].get("switches", {})}
        self.assertEqual(every, {"offload_optimizer", "offload_hidden", "partition_parameters", "lazy_prefetch", "segment_sync",
                                 "economical_forward", "economical_backward"})

    def live(self, losses=(2.0, 1.5), peaks=(900, 700, 500, 600, 900)):
        model = {"name": "tiny", "layers": 2, "global_batch": 8}
        lines = [{"plan": number, "loss": losses[number % 2], "allocated": [peak, 1], "wall_ns": 1e6}
                 for number, peak in enumerate(peaks)]
        alone = [{"loss": [2.0, 1.5][number % 2]} for number in range(len(peaks))]
        config = self.folder / "model.toml"
        config.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in model.items()), encoding="utf-8")
        with mock.patch.object(switch_checks, "trained", side_effect=[alone, lines]):
            return switch_checks.switches(self.installation, {}, Budget(10, ManualClock()), config=config)

    def test_switches_must_save_memory_and_change_no_loss(self):
        self.assertEqual(self.live()["switches"]["on the host"], {"peak_bytes": 500, "step_ms": 1.0})
        with self.assertRaisesRegex(Failed, "on the host took 700 bytes of the device, released 700"):
            self.live(peaks=(900, 700, 700, 600, 900))
        with self.assertRaisesRegex(Failed, "losses with live changes are 1.3e-01 from those of one process"):
            self.live(losses=(2.0, 1.7))

    def test_the_table_has_both_and_says_what_was_not_run(self):
        worlds = {"1": {"loss_difference": 0.0, "peak_bytes": 3 << 20, "plain_peak_bytes": 4 << 20, "asked": "FULL_SHARD",
                        "strategy": "NO_SHARD"}}
        run = {"losses": [], "peak_bytes": 5 << 20, "step_ms": 2.5}
        sections = [{"section": "fsdp", "status": "passed", "seconds": 1.0, "budget_s": 20, "result": {"worlds": worlds}},
                    {"section": "offload", "status": "passed", "seconds": 1.0, "budget_s": 25,
                     "result": {"offload": {"device": run, "host": run}, "loss_difference": 1e-7}},
                    {"section": "switches", "status": "passed", "seconds": 1.0, "budget_s": 40,
                     "result": {"switches": {"on the host": run}, "loss_difference": 1e-7}}]
        text = report.table({"date": "2026-01-01", "sections": sections}, ("fsdp", "offload", "tune"))
        self.assertIn("1 ranks on one GPU: asked FULL_SHARD, ran NO_SHARD; losses within 0.0e+00; peak 3 MiB, plain 4 MiB", text)
        self.assertIn("states on the host    peak 5 MiB, step 2.50 ms", text)
        self.assertIn("on the host     allocated 5 MiB, step 2.50 ms", text)
        self.assertEqual([line for line in text.splitlines() if "not run" in line], [f"{'tune':<20}not run"])


if __name__ == "__main__":
    unittest.main()
