"""What has become doubtful is measured again in a pause of a running job: between two steps, by all ranks or by none."""
import os
import unittest

from fake_agent import FakeAgent
from harness import EVEN_RECOMPUTED, SINGLE, JobTest

MS = 1_000_000
ITEMS = [
    {"kind": "collective", "primitive": "all_reduce", "bytes": 1 << 16, "group_size": 2, "expected_ns": MS},
    {"kind": "point_to_point", "bytes": 1 << 14, "ranks": [0, 1], "expected_ns": MS},
    {"kind": "operator", "cost_key": "head-v64-h32-t16", "dtype": "float32", "samples": 2, "tp": 1, "sharding": "default", "expected_ns": 2 * MS},
    {"kind": "collective", "primitive": "all_gather", "bytes": 1 << 12, "group_size": 2, "ranks": [0, 1], "expected_ns": MS},
    {"kind": "operator", "cost_key": "no such", "dtype": "float32", "samples": 2, "expected_ns": MS},
    {"kind": "collective", "primitive": "all_reduce", "bytes": 1 << 20, "group_size": 2, "expected_ns": 3600_000 * MS},
]


class MeasuringAgain(JobTest):
    def setUp(self):
        super().setUp()
        self.agent = FakeAgent(os.path.join(self.folder, "agent.sock"))
        self.addCleanup(self.agent.close)

    def test_all_ranks_measure_before_the_same_step_and_lose_nothing(self):
        run = self.start(EVEN_RECOMPUTED, 2, 5000, "--memory-limit", str(2 << 30), environment={"TRIMTAB_SOCKET": self.agent.path})
        self.agent.wait_for_step(3)
        self.assertEqual({message.get("measures") for _, message in self.agent.of("hello")}, {True})
        request = {"type": "measure", "number": 1, "bound_ms": 2000, "items": ITEMS}
        self.agent.send(request, ranks={0})
        self.agent.wait_for_step(self._last_step() + 10)
        self.assertEqual(self.agent.of("measured"), [], "one rank has not heard of it")
        self.agent.send({"type": "measure_cancel", "number": 1})
        self.agent.send({**request, "number": 2})
        told = self.agent.wait_from_all("measured", 2, number=2)
        self.assertEqual(len({message["step"] for _, message in told}), 1, "all ranks measure before the same step")
        for _, message in told:
            self.assertLess(message["took_ns"], 2000 * MS)
            answers = {one["item"]: one for one in message["items"]}
            self.assertEqual([len(answers[item]["values"]) for item in (0, 1, 2, 3)], [1, 1, 2, 1], message)
            for item in (0, 1, 2, 3):
                for values in answers[item]["values"]:
                    self.assertGreater(min(values), 0)
            self.assertIn("no operator has cost_key", answers[4]["error"])
            self.assertIn("of the pause were left", answers[5]["error"])
        last = self._last_step() + 20
        self.agent.send({"type": "stop", "step": last})
        run.wait()
        self.assertEqual(set(run.codes), {0}, run.errors)
        found = run.log()
        self.assert_same_training(self.train(SINGLE, 1, max(found) + 1), found)

    def _last_step(self):
        return max(message["step"] for _, message in self.agent.of("step"))


if __name__ == "__main__":
    unittest.main()
