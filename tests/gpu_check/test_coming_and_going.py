"""An agent that comes and goes, and a process with the real library in it: what it costs to record is planted, and found.
TRIMTAB_TEST_LONG=1 runs whole sections so: 30 s each."""
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
import unittest

from harness import LIB

from gpu_check import step_overhead, taken_ring
from gpu_check.sections import Budget, Failed

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
STANDIN = pathlib.Path(__file__).with_name("training_standin.py")


class StandIn:
    """In the place of Trainer: its process is training_standin.py."""

    def __init__(self, seed=1, **settings):
        self._settings, self._own = {"seed": seed, "noise": 0.01, **settings}, {}
        if "TRIMTAB_BUDGET" in self._settings:
            self._own["TRIMTAB_BUDGET"] = self._settings.pop("TRIMTAB_BUDGET")

    def start(self, environment, program, settings):
        fakes = {"FAKE_CUDA": str(LIB / "libfake_cuda.so"), "FAKE_CUPTI_LIBRARY": str(LIB / "libfake_cupti.so"),
                 "TRIMTAB_CUPTI_LIBRARY": str(LIB / "libfake_cupti.so"), "TRIMTAB_FLUSH_MS": "20"}
        self._process = subprocess.Popen([sys.executable, STANDIN, json.dumps({**self._settings, **settings})], stdout=subprocess.PIPE,
                                         text=True, env={**environment, **fakes, **self._own})

    def answered(self, seconds):
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def finish(self, budget):
        output, _ = self._process.communicate(timeout=budget.left())
        if self._process.returncode != 0:
            raise Failed(f"the stand-in ended with {self._process.returncode}")
        return json.loads(output)


class Here:
    def __init__(self, folder):
        self.folder, self.library = pathlib.Path(folder), LIB / "libtrimtab-inject.so"


class ComingAndGoing(unittest.TestCase):
    def setUp(self):
        missing = [name for name in ("libtrimtab-inject.so", "libfake_cuda.so", "libfake_cupti.so") if not (LIB / name).exists()]
        if missing:
            self.skipTest(f"{LIB} lacks {', '.join(missing)}")
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.here = Here(held.name)

    def standin(self, **settings):
        made = StandIn(**settings)
        self.addCleanup(lambda: made.close())
        return made

    def test_a_process_comes_back_to_an_agent_that_has_left(self):
        path = self.here.folder / "agent.sock"
        agent = taken_ring.VisitingAgent(path, 0.1, 0)
        self.addCleanup(agent.close)
        standin, rings = self.standin(seconds=30, planted=0, TRIMTAB_BUDGET="1"), set()
        standin.start({"TRIMTAB_SOCKET": str(path), "CUDA_INJECTION64_PATH": str(self.here.library)}, "", {})
        deadline = time.monotonic() + 30
        while len(rings) < 2 and time.monotonic() < deadline:
            agent.tend()
            rings |= {agent._ring} - {None}
        first, second = sorted(rings, key=lambda ring: ring is agent._ring)
        agent.tend()
        self.assertGreater(first.counts[taken_ring.KERNEL], 0)
        self.assertEqual(second.told, first.told)

    def section(self, planted, **settings):
        return step_overhead.steps(self.standin(planted=planted, **settings), self.here, {}, Budget(120), "", {"seconds": 60},
                                   there_s=1.6, away_s=1.6)

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_a_planted_cost_of_three_in_a_thousand_passes(self):
        result = self.section(0.003, TRIMTAB_BUDGET="1")
        share = result["costs"]["steps"]["share"]
        self.assertAlmostEqual(share["value"], 0.003, delta=0.0015)
        self.assertGreater(result["costs"]["steps"]["recorded"], 1000)

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_a_planted_cost_of_two_per_cent_fails(self):
        with self.assertRaisesRegex(Failed, "0.50 % are allowed") as failed:
            self.section(0.02, TRIMTAB_BUDGET="1")
        self.assertAlmostEqual(failed.exception.result["costs"]["steps"]["share"]["value"], 0.02, delta=0.003)

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_the_controllers_own_samples_are_found(self):
        """At the default budget it records a part of the steps. Each costs a tenth of itself, so all cost a tenth of that part."""
        try:
            result = self.section(0.1)
        except Failed as failed:
            result = failed.result
        one = result["costs"]["steps"]
        self.assertLess(one["recorded_steps"], 0.9 * one["steps"])
        self.assertGreater(one["share"]["value"], 0.1 * 0.5 * one["recorded_steps"] / one["steps"])
        self.assertLess(one["share"]["value"], 0.1 * 2.5 * one["recorded_steps"] / one["steps"])


if __name__ == "__main__":
    unittest.main()
