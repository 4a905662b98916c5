"""A real job of four ranks that may set every knob: its initial plan sets them all, and whatever it is tuned to learns the same."""

import json
import unittest

from installation import Installation, replace_in

RANKS = 4
KNOBS = ("sliced_microbatches", "tensor_parallel", "sharded", "sub_batches", "memory_switches")
# Two stages of other splits; states in parts, on the host; gathered parameters released between the passes; sub-batches that
# overlap over the passes; recompute with its input on the host.
INITIAL = {
    "schema": "trimtab.plan/1", "model": "tiny", "global_batch": 8, "microbatch": 4,
    "schedule": {"kind": "1f1b", "transfers": "blocking", "sub_batches": 2, "cross_pass": True,
                 "recompute_after_communication": True},
    "stages": [
        {"devices": [0, 1], "segments": [
            {"operators": [0, 3], "dp": 1, "tp": 2, "recompute": [[1, 3]], "switches": {"offload_hidden": [[1, 2]]}}]},
        {"devices": [2, 3], "segments": [
            {"operators": [3, 6], "dp": 2, "tp": 1, "sharded": "gradients",
             "switches": {"offload_optimizer": True, "partition_parameters": [[3, 5]]}}]}]}


class EveryKnob(unittest.TestCase):
    def test_a_job_with_every_knob_is_tuned_and_learns_the_same(self):
        with Installation(devices=RANKS) as trimtab:
            job = trimtab.write_job(MEMORY="1GiB")
            (trimtab.directory / "initial.json").write_text(json.dumps(INITIAL))
            replace_in(job, {
                "world_size = 2": f'world_size = {RANKS}\nclass = "rounding"\ntarget = "trainer"\ninitial_plan = "initial.json"',
                "[knobs]": "\n".join(["[knobs]", *(f"{knob} = true" for knob in KNOBS)])})
            tune = trimtab.start_tune(job, "--keep-up")
            self.assertEqual(tune.wait(timeout=400), 0, trimtab.all_logs())
            report = trimtab.report()
            self.assertEqual(report["initial"]["plan"]["stages"], INITIAL["stages"])
            self.assertGreater(report["initial"]["measured_ms"]["steps"], 0)
            self.assertGreater(len(report["trials"]), 0, trimtab.tune_log())
            self.assertTrue(report["loss"]["same_samples"])
            self.assertGreater(report["loss"]["steps"], 10)
            self.assertLess(report["loss"]["max_abs_difference_to_untuned_run"], 1e-3)
            self.check_costs(trimtab)

    def check_costs(self, trimtab):
        """What only these knobs need was measured, so that the search could price it: split operators among it."""
        known = trimtab.get("/v1/costs")["fingerprints"]
        keys = [cost["key"] for one in known for cost in trimtab.get(f"/v1/costs?fingerprint={one['hash']}")["costs"]]
        self.assertTrue({1, 2} <= {key.get("tp", 1) for key in keys}, keys)


if __name__ == "__main__":
    unittest.main()
