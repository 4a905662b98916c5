"""A job that begins on two nodes of different hardware fingerprints: each is measured, and the plans know of both."""

import re
import unittest

from installation import Installation, command_line, replace_in, wait_until

NODES = ("n0", "n7")


class Mixed(unittest.TestCase):
    def test_a_job_is_measured_and_tuned_on_nodes_of_two_fingerprints(self):
        with Installation(devices=1) as trimtab:
            job = trimtab.write_job(MEMORY="1GiB")
            replace_in(job, {'OMP_NUM_THREADS = "1"\n': ""})  # each agent's own, which is a part of the fingerprint
            trimtab.join(command_line(trimtab.up()["agent"]), NODES[1])
            wait_until(lambda: len(trimtab.get("/v1/nodes")["nodes"]) == 2, "another node", 30)
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=300), 0, trimtab.all_logs())
            told = "\n".join(trimtab.told())
            other = re.search(r"of other hardware are nodes (.*?),", told)  # by their fingerprints' hashes
            self.assertIsNotNone(other, told)
            self.assertIn(other[1], NODES)
            self.assertRegex(told, rf"node {other[1]}, which is of other hardware, computes the model's operators at [\d.]+ %")
            self.assertGreater(len(trimtab.report()["trials"]), 0, told)
            self.check_costs(trimtab)

    def check_costs(self, trimtab):
        """Of each fingerprint what its own node took, operators' times above all."""
        known = trimtab.get("/v1/costs")["fingerprints"]
        counts = []
        for one in known:
            costs = trimtab.get(f"/v1/costs?fingerprint={one['hash']}")["costs"]
            counts.append(sum(cost["key"]["kind"] == "operator_forward" for cost in costs))
        measured = [count for count in counts if count > 0]
        self.assertEqual(len(measured), 2, counts)
        self.assertEqual(measured[0], measured[1])


if __name__ == "__main__":
    unittest.main()
