"""Some seeds of faulted_network.py; many: faulted_network.py --runs N."""
import os
import unittest

from faulted_network import Run
from node_network import missing

RUNS = int(os.environ.get("TRIMTAB_TEST_RUNS", "2"))


@unittest.skipIf(missing(), missing())
class FaultedNetwork(unittest.TestCase):
    def test_every_cost_arrives_once_whatever_links_and_processes_do(self):
        for seed in range(1, RUNS + 1):
            with self.subTest(seed=seed):
                told = []
                try:
                    Run(seed, 3, 40, told.append).go()
                except AssertionError as failure:
                    self.fail("\n".join([*told, str(failure), f"again: faulted_network.py --seed {seed} --seconds 40"]))


if __name__ == "__main__":
    unittest.main()
