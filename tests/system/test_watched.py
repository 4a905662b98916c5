"""A job that its user launched: two processes of his, real daemons beside them, which are killed and started again."""
import os
import pathlib
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request
import json

from installation import ROOT, TRIMTAB, Installation, wait_until

RANK = pathlib.Path(__file__).parent / "watched_rank.py"


class Watched(unittest.TestCase):
    def start_ranks(self, trimtab, name="train"):
        """Both ranks, in a process group of their own with a sleeping helper each, as data loaders are."""
        socket = next((trimtab.state / "agents").glob("*/agent.sock"))
        ranks = []
        for rank in range(2):
            environment = {**os.environ, "TRIMTAB_SOCKET": str(socket), "TRIMTAB_JOB": name, "TRIMTAB_WATCH": "1", "RANK": str(rank),
                           "WORLD_SIZE": "2"}
            ranks.append(subprocess.Popen([sys.executable, str(RANK)], env=environment, stdin=subprocess.PIPE, start_new_session=True))
        self.addCleanup(lambda: [rank.kill() or rank.wait() for rank in ranks])
        return ranks

    def end_ranks(self, ranks):
        for rank in ranks:
            rank.stdin.write(b"\n")
            rank.stdin.flush()
        for rank in ranks:
            self.assertEqual(rank.wait(timeout=20), 0)

    def job(self, trimtab, name="train"):
        try:
            return trimtab.get(f"/v1/jobs/{name}")
        except (OSError, urllib.error.URLError):
            return {}

    def trains(self, trimtab, beyond=0):
        wait_until(lambda: self.job(trimtab).get("phase") == "training" and self.job(trimtab)["step"] > beyond, "training", 60)
        return self.job(trimtab)["step"]

    def test_it_is_seen_like_any_other_job_and_left_alone(self):
        with Installation() as trimtab:
            trimtab.up()
            ranks = self.start_ranks(trimtab)
            self.trains(trimtab, beyond=40)
            self.assertIs(self.job(trimtab)["watched"], True)
            self.assertIn("train", trimtab.run("status", "--state", trimtab.state).stdout)
            self.assertIn("job train: 2 ranks", trimtab.run("card", "train", "--state", trimtab.state).stdout)
            card = trimtab.get("/v1/jobs/train/card")
            self.assertEqual((card["schema"], card["ranks"]), ("trimtab.card/1", 2))
            self.assertAlmostEqual(card["step_ms"]["median"], 20, delta=0.5)
            self.assertEqual(trimtab.get("/v1/jobs/train/report")["initial"]["hash"], "as-launched")
            refused = trimtab.run("job", "stop", "--job", "train", "--state", trimtab.state, check=False)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("launched by its user", refused.stderr)
            self.assertTrue(all(rank.poll() is None for rank in ranks))
            self.end_ranks(ranks)
            wait_until(lambda: self.job(trimtab)["phase"] == "finished", "the end", 30)
            self.assertEqual(trimtab.get("/v1/jobs/train/card")["ranks"], 2)

    def test_the_coordinator_and_the_agent_are_killed_in_the_middle(self):
        with Installation() as trimtab:
            trimtab.up()
            ranks = self.start_ranks(trimtab)
            step = self.trains(trimtab, beyond=10)
            run = self.job(trimtab)["run"]
            trimtab.restart_hard("coordinator")
            step = self.trains(trimtab, beyond=step + 20)
            trimtab.restart_hard("agent")
            self.trains(trimtab, beyond=step + 20)
            self.assertEqual(self.job(trimtab)["run"], run)
            self.assertTrue(all(rank.poll() is None for rank in ranks))
            self.end_ranks(ranks)
            wait_until(lambda: self.job(trimtab)["phase"] == "finished", "the end", 30)

    def test_down_leaves_the_ranks_alone_and_a_killed_rank_ends_the_job(self):
        with Installation() as trimtab:
            trimtab.up()
            ranks = self.start_ranks(trimtab)
            self.trains(trimtab)
            trimtab.run("down", "--state", trimtab.state)
            self.assertTrue(all(rank.poll() is None for rank in ranks))
            ranks[1].kill()
            ranks[1].wait()
            trimtab.up()
            self.end_ranks(ranks[:1])
            wait_until(lambda: self.job(trimtab)["phase"] == "failed", "the end", 90)
            self.assertIn("rank 1", self.job(trimtab)["failure"])


if __name__ == "__main__":
    unittest.main()
