"""The predictions of Aceso's published searches, reproduced through the program: import, then evaluate each best plan.

These are the 15 plans of PLANS. Of twelve the search's own iteration time is published unrounded. The three on one device
are published rounded alone.

Needs the published data beside the repository (../shared/peers) or at TRIMTAB_PEERS; skips where it is absent.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from installation import ROOT, TRIMTAB

sys.path.insert(0, str(ROOT / "bench"))
import peer_plans  # noqa: E402

PEERS = pathlib.Path(os.environ.get("TRIMTAB_PEERS", ROOT.parent / "shared" / "peers"))
ACESO = PEERS / "aceso_v100"
PLANS = [
    *("gpt-350M", "gpt-1_3B", "gpt-2_6B", "gpt-13B", "t5-770M", "t5-3B", "t5-11B", "t5-22B"),
    *("resnet-500M", "resnet-2B", "resnet-6_8B", "resnet-13B"),
    *("scale-layer-64layers", "scale-layer-128layers", "scale-layer-256layers"),
]
ON_ONE_DEVICE = {"gpt-350M", "t5-770M", "resnet-500M"}
TOLERANCE = 1e-10
MIB = 1 << 20


def trimtab(*arguments, codes=(0,)):
    done = subprocess.run([str(TRIMTAB), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if done.returncode not in codes:
        raise AssertionError(f"trimtab {' '.join(map(str, arguments))} gave {done.returncode}:\n{done.stderr}")
    return done


@unittest.skipUnless(ACESO.is_dir(), f"{ACESO} is absent: set TRIMTAB_PEERS to the published data")
class PeerPredictions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="trimtab-peers-")
        cls.directory = pathlib.Path(cls.scratch.name)
        cls.costs = cls.directory / "costs.db"
        cls.imported = json.loads(
            trimtab("db", "import", "--format", "aceso", ACESO, cls.costs, "--documents", cls.directory, "--json").stdout
        )
        cls.settings = json.loads((ACESO / "peer_results.json").read_text())["settings"]

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def near(self, ours, published, digits, what):
        """Equal to 1e-10, beside the rounding of what was published with so many decimals."""
        allowed = TOLERANCE * abs(published) + 0.5000001 * 10.0**-digits
        self.assertLessEqual(abs(ours - published), allowed, f"{what}: ours {ours!r}, published {published!r}")

    def evaluate(self, setting):
        plan = peer_plans.plan_of(setting)
        path = self.directory / f"{plan['model']}.plan.json"
        path.write_text(json.dumps(plan))
        done = trimtab(
            *("evaluate", "--model", self.directory / f"{plan['model']}.json"),
            *("--cluster", self.directory / f"{plan['model']}.cluster.json"),
            *("--costs", self.costs, "--cost-model", "aceso", "--plan", path, "--json"),
        )
        return plan, json.loads(done.stdout)

    def check_stage(self, ours, published, what):
        self.near(ours["forward_ms"], published["fwd_ms"], 4, f"{what} forward")
        self.near(ours["backward_ms"], published["bwd_ms"], 4, f"{what} backward")
        self.near(ours["recompute_ms"], published["recompute_ms"], 4, f"{what} recompute")
        communication = published["in_comm_ms"] + published["out_comm_ms"]
        allowed = TOLERANCE * communication + 1.0001e-4  # a sum of two rounded numbers
        self.assertLessEqual(abs(ours["exposed_communication_ms"] - communication), allowed, f"{what} communication")
        states = sum(published[f"mem_{part}"] for part in ("weights", "gradients", "optimizer"))
        self.assertLessEqual(abs(ours["memory"]["states"] / MIB - states), 0.1501, f"{what} states")
        self.near(ours["memory"]["reserved"] / MIB, published["mem_reserved"], 1, f"{what} reserved")

    def check_setting(self, setting):
        plan, ours = self.evaluate(setting)
        published = setting["best_plan"]["predicted"]
        name = plan["model"]
        self.near(ours["iteration_ms"], published["iteration_ms"], 6, f"{name} iteration")
        if name not in ON_ONE_DEVICE:
            self.near(ours["iteration_ms"], setting["best"]["iteration_ms"], 12, f"{name} iteration, unrounded")
        self.assertEqual(len(ours["stages"]), len(published["per_stage"]))
        stage_ms = [
            sum(stage[f"{part}_ms"] for part in ("forward", "backward", "recompute", "exposed_communication"))
            for stage in ours["stages"]
        ]
        microbatches = plan["global_batch"] // plan["microbatch"]
        for i, stage in enumerate(ours["stages"]):
            what = f"{name} stage {i}"
            whole = stage_ms[i] * (microbatches - 1) + sum(stage_ms)
            self.near(whole, published["stage_iteration_ms"][i], 3, f"{what} iteration")
            self.near(stage_ms[i], published["per_stage"][i]["stage_ms"], 4, f"{what} time")
            self.near(stage["memory_bytes"] / MIB, published["memory_mib"][i], 2, f"{what} memory")
            self.check_stage(stage, published["per_stage"][i], what)
        self.assertTrue(ours["feasible"], f"{name}: {ours.get('infeasible_reason')}")

    def test_every_published_plan_has_its_published_prediction(self):
        self.assertEqual(sorted(PLANS), sorted(f"{one['model']}-{one['size']}" for one in self.settings))
        for setting in self.settings:
            with self.subTest(f"{setting['model']}-{setting['size']}"):
                self.check_setting(setting)

    def test_importing_twice_changes_nothing(self):
        before = trimtab("db", "export", self.costs).stdout
        again = json.loads(trimtab("db", "import", "--format", "aceso", ACESO, self.costs, "--json").stdout)
        self.assertEqual(again["new_profiles"], 0)
        self.assertEqual(self.imported["new_profiles"], len(again["profiles"]))
        self.assertEqual(trimtab("db", "export", self.costs).stdout, before)

    def test_every_published_setting_has_its_documents(self):
        for setting in self.settings:
            name = f"{setting['model']}-{setting['size']}"
            model = json.loads((self.directory / f"{name}.json").read_text())
            cluster = json.loads((self.directory / f"{name}.cluster.json").read_text())
            self.assertEqual(len(model["operators"]), sum(s["num_ops"] for s in setting["best_plan"]["stages"]))
            self.assertEqual([node["devices"] for node in cluster["nodes"]], [setting["gpus_per_node"]] * setting["nodes"])
            self.assertTrue(all(n["memory_bytes"] == setting["memory_limit_mib"] * MIB for n in cluster["nodes"]))


if __name__ == "__main__":
    unittest.main()
