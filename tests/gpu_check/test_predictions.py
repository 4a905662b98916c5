"""Predictions beside measured steps: with a program in trimtab's place that is off by what was planted, and, with
TRIMTAB_TEST_LONG=1, with the real one and the reference trainer on CPUs."""
import os
import pathlib
import shutil
import sysconfig
import tempfile
import unittest

from harness import BIN, HAS_PYTORCH, LIB
from test_plan_checks import SMALL, TINY

from gpu_check import megatron_runs, prediction, report
from gpu_check.installation import Installation
from gpu_check.machine import with_this_python
from gpu_check.sections import Budget, Failed, Skipped

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
class Predictions(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "bin").mkdir()
        self.installation = Installation(self.folder, "/nowhere", "/nowhere")
        shutil.copy(pathlib.Path(__file__).with_name("made_up_trimtab.py"), self.folder / "bin/trimtab")
        (self.folder / "bin/trimtab").chmod(0o755)
        self.source = self.folder / "Megatron-LM"
        self.source.mkdir()
        (self.source / "pretrain_gpt.py").touch()

    def megatron(self, plans=prediction.MEGATRON_PLANS, **environment):
        made_up = {"MADE_UP_COSTS": "1.2", "MADE_UP_LEARNT": "0.97", **environment}
        inherited = with_this_python({**os.environ, **made_up})
        return prediction.of_megatron(self.installation, inherited, Budget(60), self.source, plans=plans)

    def test_megatron_before_and_after(self):
        result = self.megatron()
        one = result["predictions"]["megatron"]
        self.assertEqual([row["plan"] for row in one["rows"]], ["mb1-recompute", "mb1", "mb2", "mb4", "mb8", "mb8-recompute"])
        self.assertEqual(one["rows"][0]["measured_ms"], 740)
        self.assertAlmostEqual(one["errors"]["before"], 0.2)
        self.assertAlmostEqual(one["errors"]["after"], 0.03)
        text = "\n".join(report.predictions("prediction-megatron", result))
        self.assertIn("20.0 % off, 3.0 % after calibration", text)
        self.assertIn("mb2                   measured 420.0 ms, predicted 504.0, after 407.4; computation 60 %, idle 40 %, launch_bound "
                      "30 %", text)

    def test_what_is_learnt_must_not_make_it_worse(self):
        with self.assertRaisesRegex(Failed, "megatron: 30.0 % off after calibration, 20.0 % before") as failed:
            self.megatron(prediction.MEGATRON_PLANS[1:4], MADE_UP_LEARNT="1.3")
        self.assertEqual(len(failed.exception.result["predictions"]["megatron"]["rows"]), 3)

    def test_one_clock_is_no_split_benchmark(self):
        with self.assertRaisesRegex(Failed, "no launches"):
            self.megatron(MADE_UP_CLOCKS="ring")

    def test_a_source_that_was_not_brought(self):
        self.source = self.folder / "elsewhere"
        with self.assertRaisesRegex(Skipped, "bring of its repository megatron/"):
            self.megatron()

    def test_helpers_of_another_python_are_compiled_anew(self):
        helpers = self.source / "megatron/core/datasets"
        helpers.mkdir(parents=True)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        (helpers / "helpers_cpp.another.so").touch()
        (helpers / "Makefile").write_text(f"all:\n\ttouch helpers_cpp{suffix}\n")
        megatron_runs.ready(self.source, dict(os.environ), Budget(20))
        self.assertTrue((helpers / f"helpers_cpp{suffix}").exists())
        (helpers / "Makefile").write_text("all:\n\tfalse\n")
        megatron_runs.ready(self.source, dict(os.environ), Budget(20))

    def test_plans_from_launch_bound_to_compute_bound(self):
        model = {"name": "m", "global_batch": 32, "operators": [{}] * 18}
        alone = prediction.reference_plans(model, 1, prediction.MICROBATCHES)
        self.assertEqual(len(alone["one rank"]), 12)
        two = prediction.reference_plans(model, 2, prediction.TOGETHER)
        self.assertEqual({kind: len(plans) for kind, plans in two.items()}, {"tp 2": 6, "pp 2": 6})
        stages = two["pp 2"]["pp2-mb4-recompute"]["stages"]
        self.assertEqual([one["segments"][0]["recompute"] for one in stages], [[[1, 9]], [[9, 17]]])
        self.assertEqual(two["tp 2"]["tp2-mb4"]["stages"][0]["segments"][0]["tp"], 2)

    def real(self, ranks):
        if not HAS_PYTORCH or not (BIN / "trimtab").exists():
            self.skipTest(f"no PyTorch, or {BIN} lacks trimtab")
        for name in ("trimtab", "trimtab-agent", "trimtab-coordinator"):
            shutil.copy(BIN / name, self.folder / "bin")
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        (build / "bin/trimtab-gpu-bench").touch()
        (build / "lib").symlink_to(LIB)
        self.installation = Installation(self.folder, BIN, build)
        self.installation.assemble()
        config = self.folder / "tiny.toml"
        config.write_text(TINY, encoding="utf-8")
        try:
            result = prediction.reference(self.installation, with_this_python({**os.environ, **SMALL}), Budget(280), ranks=ranks,
                                          device="cpu", config=config, batch=8, microbatches=(1, 8))
        except Failed as failed:  # Of plans that take a few milliseconds each on a busy machine, or a real one.
            result = failed.result
            self.assertIn("predictions", result, str(failed))
        self.addCleanup(print, "\n".join(report.predictions("on CPUs", result)))
        for kind, one in result["predictions"].items():
            self.assertEqual(len(one["rows"]), 4, kind)
            for row in one["rows"]:
                self.assertGreater(min(row["measured_ms"], row["before_ms"], row["after_ms"]), 0)
        return result

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_the_reference_trainer_on_cpus(self):
        self.assertEqual(list(self.real(1)["predictions"]), ["one rank"])

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_two_ranks_on_cpus(self):
        self.assertEqual(list(self.real(2)["predictions"]), ["tp 2", "pp 2"])


if __name__ == "__main__":
    unittest.main()
