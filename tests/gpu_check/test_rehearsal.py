"""The whole check with a program in the place of trimtab-gpu-bench: made-up timings, real daemons."""
import json
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from harness import BIN, LIB, load_script

from gpu_check import arms

# As the real program ends where the driver is older than the toolkit that it was built with.
OLD_DRIVER = """#!/usr/bin/python3
import sys
sys.exit("trimtab-gpu-bench: cudaGetDeviceCount: CUDA driver version is insufficient for CUDA runtime version")
"""

# Answers as the real program does; a process with CUDA injected takes 0.1 % longer, and nothing reaches any ring.
BENCH = """#!/usr/bin/python3
import json, os, random, sys
if sys.argv[1] == "device":
    print(json.dumps({"device": "made up", "driver": "0", "multiprocessors": 1}))
    sys.exit()
factor = 1.001 if "CUDA_INJECTION64_PATH" in os.environ else 1.0
for graph in (False, True):
    steps = [round(1e6 * factor * random.gauss(1, 0.0005)) for _ in range(40)]
    print(json.dumps({"chain": {"kernel_ns": 5000, "graph": graph, "kernels_per_step": 10, "kernels": 400, "copies": 40,
                                "fills": 40, "graph_launches": 40 * graph, "first_launch_ns": 1, "resident_bytes": 1,
                                "device_bytes": 1, "step_ns": steps, "host_ns_per_launch": steps,
                                "gpu_ns_per_kernel": steps}}))
"""


class Rehearsal(unittest.TestCase):
    def setUp(self):
        if not (BIN / "trimtab-agent").exists():
            self.skipTest(f"{BIN} lacks trimtab-agent")
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        build = self.folder / "build"
        (build / "bin").mkdir(parents=True)
        os.symlink(LIB, build / "lib")
        self.bench = build / "bin" / "trimtab-gpu-bench"
        self.bench.write_text(BENCH)
        self.bench.chmod(0o755)
        self.script = load_script()
        self.build = build

    def check(self, *words, pytorch=None):
        options = self.script.arguments(["--out", str(self.folder / "out"), "--programs", str(BIN), *words])
        with mock.patch.object(self.script.machine, "pytorch_version", lambda environment: pytorch):
            check = self.script.Check(options, tempfile.mkdtemp(dir=self.folder))
        check._installation._build = self.build
        check._installation.build = lambda budget: check._installation.assemble()
        passed = check.run()
        document = json.loads((self.folder / "out" / "gpu-check.json").read_text())
        return passed, {section["section"]: section for section in document["sections"]}

    def test_each_section_stands_alone_and_the_results_are_written(self):
        passed, by_name = self.check("--sections", "device,records,profiler,overhead-chain")
        self.assertFalse(passed)
        self.assertEqual(by_name["device"]["status"], "passed")
        self.assertEqual(by_name["records"]["status"], "failed", "the made-up program published nothing")
        self.assertEqual(by_name["profiler"]["status"], "skipped")
        self.assertIn("has no torch: bring its wheels", by_name["profiler"]["reason"])
        self.assertEqual(by_name["overhead-chain"]["status"], "passed", by_name["overhead-chain"].get("reason"))
        step = by_name["overhead-chain"]["result"]["workloads"]["5 us kernels"]["step"]
        self.assertAlmostEqual(step["full"]["median"]["value"], 1.001, delta=0.0005)
        self.assertEqual(set(step), set(arms.ARMS) - {arms.BARE, arms.GUARDED})
        table = (self.folder / "out" / "gpu-check.txt").read_text()
        self.assertIn("made up, driver 0", table)
        self.assertIn("graph of 5 us kernels", table)
        self.assertTrue((self.folder / "out" / "trimtab-agent.log").exists())
        self.assertIn("checks", json.loads((self.folder / "out" / "gpu-check.json").read_text())["doctor"])
        # A later call for another section keeps these.
        _, again = self.check("--sections", "profiler")
        self.assertEqual(again["build"]["status"], "passed", again["build"].get("reason"))
        self.assertEqual(again["overhead-chain"], by_name["overhead-chain"])


    def test_a_driver_that_is_too_old_fails_every_section_that_needs_it_and_says_so(self):
        self.bench.write_text(OLD_DRIVER)
        passed, by_name = self.check("--sections", "device,records,overhead-chain", "--scale", "1")
        self.assertFalse(passed)
        for name in ("device", "records", "overhead-chain"):
            self.assertEqual(by_name[name]["status"], "failed", name)
            self.assertIn("driver version is insufficient", by_name[name]["reason"])
        table = (self.folder / "out" / "gpu-check.txt").read_text()
        self.assertIn("driver version is insufficient", table)

    def test_what_is_missing_is_named_and_the_rest_is_run(self):
        script, ran = self.script, {}

        def told(name):
            return lambda *given, **named: ran.setdefault(name, (given, named)) and {}
        nowhere = str(self.folder / "nowhere")
        with (mock.patch.object(script, "Trainer"), mock.patch.object(script.machine, "has_package", lambda name, environment: False),
              mock.patch.object(script.prediction, "reference", told("reference")),
              mock.patch.object(script.step_overhead, "collectives", told("collectives"))):
            passed, by_name = self.check("--sections", "overhead-eager,overhead-first,overhead-megatron,overhead-nccl,prediction-two,"
                                         "prediction-megatron", "--megatron", nowhere, pytorch="2.0")
        self.assertTrue(passed, by_name)
        for name, missing in {"overhead-eager": "has no transformers: bring its wheels", "overhead-first": "has no transformers",
                              "overhead-megatron": f"no Megatron-LM in {nowhere}: bring", "prediction-megatron": "(--megatron)"}.items():
            self.assertEqual(by_name[name]["status"], "skipped", name)
            self.assertIn(missing, by_name[name]["reason"])
        self.assertEqual(ran["reference"][1], {"ranks": 2})
        self.assertEqual(len(ran["collectives"][0][0]), 2, "two ranks")

    def test_without_the_programs_nothing_else_is_tried(self):
        os.unlink(self.bench)
        passed, by_name = self.check("--sections", "device,records")
        self.assertFalse(passed)
        self.assertEqual(list(by_name), ["build"])
        self.assertIn("found no nvcc", by_name["build"]["reason"])


if __name__ == "__main__":
    unittest.main()
