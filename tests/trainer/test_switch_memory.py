"""What the built program predicts of a plan's memory with switches, against the parameters and gradients that a rank of the
trainer has on its device under it: a bound, for the trainer fetches and gathers by operator and not by layer, keeps no
share beside what it has whole, releases what a layer that keeps its intermediates has gathered, and with one replica
gathers nothing."""
import json
import os
import pathlib
import subprocess
import sys
import tomllib
import unittest

from harness import MODEL, ROOT, SEED, JobTest
from switched_stage import SwitchedStage, plan_of

import config
from model import operator_specs

PROGRAMS = pathlib.Path(os.environ.get("TRIMTAB_BUILD", os.path.join(ROOT, "build", "release"))) / "bin"
# States are most of what it holds.
WIDE = MODEL.replace("hidden = 32", "hidden = 128").replace("sequence = 16", "sequence = 2").replace(
    "global_batch = 12", "global_batch = 4").replace("layers = 3", "layers = 8")
CONFIG = config.from_document(tomllib.loads(WIDE))
ALL = [[0, len(operator_specs(CONFIG))]]
LAYER = [[3, 5]]  # The second.
SWITCHES = {
    "none": {},
    "parameters of a layer released": {"partition_parameters": LAYER},
    "parameters released": {"partition_parameters": ALL},
    "parameters of a layer on the host": {"partition_parameters": ALL, "lazy_prefetch": LAYER},
    "parameters on the host": {"partition_parameters": ALL, "lazy_prefetch": ALL},
    "and economical": {"partition_parameters": ALL, "lazy_prefetch": ALL, "economical_forward": ALL,
                       "economical_backward": ALL},
}


class SwitchMemory(JobTest):
    def setUp(self):
        super().setUp()
        if not (PROGRAMS / "trimtab").exists():
            self.skipTest(f"{PROGRAMS} has no trimtab")
        self.cluster = self.write("cluster.json", {
            "schema": "trimtab.cluster/1", "nodes": [{"name": "n0", "devices": 2, "memory_bytes": 1 << 30}],
            "links": [{"level": "intra_node"}]})
        self.model = self.write("model.json", self.program(
            [sys.executable, os.path.join(ROOT, "trainer", "describe.py"), "--config", self.write("wide.toml", WIDE)]))
        self.costs = os.path.join(self.folder, "costs.db")
        self.fingerprint = self.program(
            [PROGRAMS / "invented_costs", self.model, self.cluster, SEED, self.costs, "nothing-kept"]).strip()

    @staticmethod
    def program(words):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def predicted(self, document):
        answer = json.loads(self.program(
            [PROGRAMS / "trimtab", "evaluate", "--model", self.model, "--cluster", self.cluster, "--costs", self.costs,
             "--fingerprint", self.fingerprint, "--plan", self.write("plan.json", document), "--allow-estimates", "--json"]))
        return answer["stages"][0]["memory_bytes"]

    def test_no_plan_holds_more_than_is_predicted_and_switches_save_as_is_predicted(self):
        for dp in (1, 2):
            found = {}
            for name, switches in SWITCHES.items():
                for recompute in ([], ALL):
                    document = plan_of(CONFIG, switches, dp, recompute)
                    held, predicted = SwitchedStage(CONFIG, document).peak_bytes, self.predicted(document)
                    with self.subTest(name, dp=dp, recompute=bool(recompute), held=held, predicted=predicted):
                        self.assertLessEqual(held, predicted)
                    found[name, bool(recompute)] = held, predicted
            for less in ("parameters on the host", "and economical"):
                for before, after in zip(found["none", True], found[less, True]):
                    with self.subTest(less, dp=dp, before=before, after=after):
                        self.assertLess(after, before / 2)


if __name__ == "__main__":
    unittest.main()
