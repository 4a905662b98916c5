"""Three nodes on this machine and an elastic job: one is lost for good, with its rank; then another joins."""

import json
import os
import re
import signal
import unittest

from installation import Installation, command_line, kill_hard, rank_of, rank_processes, replace_in, wait_until
from torchrun_job import initial_plan, write_torchrun_job

SNAPSHOT_EVERY = 20  # steps, as in job.toml
SAVE_EVERY = 50  # steps, of the restarted job


class Job:
    """What both kinds of job share: the way in which a node is lost, and what is asked of the coordinator."""

    name = "tiny"

    def job(self, trimtab):
        return json.loads(trimtab.run("status", "--state", trimtab.state, "--json").stdout)["jobs"][0]

    def lose_node(self, trimtab, node):
        """The command line of its agent, which is killed with its rank, and the step at which that happened."""
        found = json.loads((trimtab.state / "up.json").read_text())["processes"]
        pid = next(process["pid"] for process in found if process["name"] == f"agent {node}")
        words = command_line(pid)
        step = self.job(trimtab)["step"]
        kill_hard(pid)
        self.kill_rank(trimtab, 2)
        return words, step

    def check_tried(self, trimtab, count):
        """What joined is planned for; where a plan promises enough it is tried, and stays or is left."""
        outcomes = ("stays with the job", "goes back to the nodes", "is not used")

        def outcome():
            return [text for text in trimtab.told(self.name) if any(words in text for words in outcomes)]

        wait_until(outcome, "a decision about the joined node", 240)
        self.assertIn("another hardware fingerprint", "\n".join(trimtab.told(self.name)))
        expected = 3 if "stays" in outcome()[0] else 2
        wait_until(lambda: count() == expected, f"{expected} ranks", 60)
        step = self.job(trimtab)["step"]
        wait_until(lambda: self.job(trimtab)["step"] > step, "another step", 60)
        print(outcome()[0])


class Elastic(Job, unittest.TestCase):
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
            self.check_tried(trimtab, lambda: len(rank_processes(trimtab.directory)))

    def write_job(self, trimtab):
        job = trimtab.write_job(MEMORY="1GiB", AFTER="continue")
        replace_in(job, {
            "world_size = 2": "world_size = 3\nelastic = true",
            "{scratch}/snapshots": f"{trimtab.directory}/snapshots",  # one folder for all nodes
            "max_trials = 3": "max_trials = 1",
            "deadline_s = 60": "deadline_s = 8",
        })
        return job

    def wait_for_snapshot(self, trimtab):
        step = self.job(trimtab)["step"]
        wait_until(lambda: self.job(trimtab)["step"] > step + 2 * SNAPSHOT_EVERY, "some more steps", 60)

    def kill_rank(self, trimtab, rank):
        kill_hard(next(one for one in rank_processes(trimtab.directory) if rank_of(one) == rank))

    def check_resumed(self, trimtab, before):
        self.assertGreater(self.job(trimtab)["step"], before - 2 * SNAPSHOT_EVERY, "the job began anew")
        self.assertEqual(sorted(rank_of(pid) for pid in rank_processes(trimtab.directory)), [0, 1])


class ElasticRestarted(Job, unittest.TestCase):
    """The torchrun example on three nodes: what goes on is its own checkpoint."""

    name = "torchrun-ddp"

    def test_a_restarted_job_goes_on_without_a_lost_node_from_its_own_checkpoint(self):
        with Installation() as trimtab:
            job = self.write_job(trimtab)
            trimtab.run("up", "--state", trimtab.state, "--agents", "3", "--devices", "1", "--port", "0")
            tune = trimtab.start_tune(job)
            self.assertEqual(tune.wait(timeout=600), 0, trimtab.tune_log() + trimtab.all_logs())
            trimtab.wait_for("a plan for one node fewer is kept ready", 60, name=self.name)
            saved = trimtab.directory / "saved" / "state.pt"
            first = saved.stat().st_mtime_ns if saved.exists() else 0
            wait_until(lambda: saved.exists() and saved.stat().st_mtime_ns > first, "another checkpoint", 120)
            agent, before = self.lose_node(trimtab, "n2")
            trimtab.wait_for("did not come back within the deadline: the job goes on without, on 2 devices", 120, name=self.name)
            trimtab.wait_for("on 2 devices the job goes on at step", 120, name=self.name)
            told = next(text for text in trimtab.told(self.name) if "the job goes on at step" in text)
            step, again = map(int, re.search(r"at step (\d+); (\d+) steps", told).groups())
            self.assertGreater(step, 0)
            self.assertGreaterEqual(step + again, before, told)
            self.assertEqual(step % SAVE_EVERY, 0, told)
            trimtab.wait_for("the initial plan takes", 120, times=2, name=self.name)
            self.assertEqual(sorted(self.ranks(trimtab)), [0, 1])
            trimtab.join(agent, "n7")
            trimtab.wait_for("node n7 has joined", 240, name=self.name)
            self.check_tried(trimtab, lambda: len(self.ranks(trimtab)))

    def write_job(self, trimtab):
        plan = initial_plan()
        plan.update(global_batch=24, microbatch=3)
        plan["stages"][0]["devices"] = [0, 1, 2]
        plan["stages"][0]["segments"][0]["dp"] = 3
        changes = {r"^world_size = .*$": "world_size = 3\nelastic = true", r'"--global-batch", "32"': '"--global-batch", "24"',
                   r'"--save-every", "500"': f'"--save-every", "{SAVE_EVERY}"',
                   r"^deadline_s = .*$": 'deadline_s = 40\nafter = "continue"\nloss_check_steps = 0'}
        return write_torchrun_job(trimtab.directory, changes, plan)

    def launchers(self, trimtab):
        """By rank: torchrun's process of each."""
        found = {}
        for pid in rank_processes(trimtab.directory):
            try:
                words = command_line(pid)
            except OSError:
                continue  # it has ended meanwhile
            if "--node_rank" in words:
                found[int(words[words.index("--node_rank") + 1])] = pid
        return found

    def ranks(self, trimtab):
        return list(self.launchers(trimtab))

    def kill_rank(self, trimtab, rank):
        """torchrun and what it has started."""
        os.killpg(os.getpgid(self.launchers(trimtab)[rank]), signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
