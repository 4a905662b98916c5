"""Three nodes on this machine and an elastic job: one is lost for good, with its rank; then another joins."""

import json
import unittest

from installation import Installation, command_line, kill_hard, rank_of, rank_processes, replace_in, wait_until

SNAPSHOT_EVERY = 20  # steps, as in job.toml


class Elastic(unittest.TestCase):
    def test_a_job_goes_on_without_a_lost_node_and_tries_one_that_joins(self):
        with Installation() as trimtab:
            job = self.write_job(trimtab)
            trimtab.run("up", "--state", trimtab.state, "--agents", "3", "--devices", "1", "--port", "0")
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=120), 0, trimtab.all_logs())
            trimtab.wait_for("a plan for one node fewer is kept ready", 60)
            self.wait_for_snapshot(trimtab)
            agent, before = self.lose_node(trimtab, "n2")
            trimtab.wait_for("did not come back within the deadline: the job goes on without, on 2 devices", 60)
            trimtab.wait_for("the initial plan takes", 60, times=2)
            self.check_resumed(trimtab, before)
            trimtab.join(agent, "n7")
            trimtab.wait_for("node n7 has joined", 60)
            self.check_tried(trimtab)

    def write_job(self, trimtab):
        job = trimtab.write_job(MEMORY="1GiB", AFTER="continue")
        replace_in(job, {
            "world_size = 2": "world_size = 3\nelastic = true",
            "{scratch}/snapshots": f"{trimtab.directory}/snapshots",  # one folder for all nodes
            "max_trials = 3": "max_trials = 1",
            "deadline_s = 60": "deadline_s = 8",
        })
        return job

    def job(self, trimtab):
        return json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)["jobs"][0]

    def wait_for_snapshot(self, trimtab):
        step = self.job(trimtab)["step"]
        wait_until(lambda: self.job(trimtab)["step"] > step + 2 * SNAPSHOT_EVERY, "some more steps", 60)

    def lose_node(self, trimtab, node):
        """The command line of its agent, which is killed with its rank, and the step at which that happened."""
        found = json.loads((trimtab.state / "up.json").read_text())["processes"]
        pid = next(process["pid"] for process in found if process["name"] == f"agent {node}")
        words = command_line(pid)
        rank = next(one for one in rank_processes(trimtab.directory) if rank_of(one) == 2)
        step = self.job(trimtab)["step"]
        kill_hard(pid)
        kill_hard(rank)
        return words, step

    def check_resumed(self, trimtab, before):
        self.assertGreater(self.job(trimtab)["step"], before - 2 * SNAPSHOT_EVERY, "the job began anew")
        self.assertEqual(sorted(rank_of(pid) for pid in rank_processes(trimtab.directory)), [0, 1])

    def check_tried(self, trimtab):
        """What joined is planned for; where a plan promises enough it is tried, and stays or is left."""
        outcomes = ("stays with the job", "goes back to the nodes", "is not used")

        def outcome():
            return [text for text in trimtab.told() if any(words in text for words in outcomes)]

        wait_until(outcome, "a decision about the joined node", 90)
        self.assertIn("another hardware fingerprint", "\n".join(trimtab.told()))
        expected = 3 if "stays" in outcome()[0] else 2
        wait_until(lambda: len(rank_processes(trimtab.directory)) == expected, f"{expected} ranks", 60)
        step = self.job(trimtab)["step"]
        wait_until(lambda: self.job(trimtab)["step"] > step, "another step", 60)
        print(outcome()[0])


if __name__ == "__main__":
    unittest.main()
