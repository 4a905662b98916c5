"""kill -9 of everything that a tune has started: the same command again takes the job up and ends with a report.

TRIMTAB_TEST_LONG=1 adds the deaths that take less with them."""

import json
import os
import signal
import unittest

from installation import Installation, kill_hard, rank_processes, wait_until

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"


class KilledTune(unittest.TestCase):
    def tune_again(self, kill, phase="training"):
        with Installation() as trimtab:
            job = trimtab.write_job(MEMORY="1GiB")
            killed = trimtab.start_tune(job)
            wait_until(lambda: rank_processes(trimtab.directory), "the job's start", 120)
            if phase != "training":
                wait_until(lambda: self.phase(trimtab) == phase, f"phase {phase}", 120)
            kill(trimtab, killed)
            self.assertEqual(killed.wait(timeout=30), -signal.SIGKILL)
            again = trimtab.start_tune(job)
            self.assertEqual(again.wait(timeout=240), 0, trimtab.tune_log())
            self.assertIn("the job tiny is running already", trimtab.tune_log())
            report = trimtab.report()
            self.assertEqual(report["phase"], "finished")
            self.assertTrue(report["loss"]["same_samples"], report["loss"])
            wait_until(lambda: not rank_processes(trimtab.directory), "the ranks' end", 30)
            self.assertFalse((trimtab.state / "up.json").exists())

    def phase(self, trimtab):
        said = trimtab.run("status", "--state", trimtab.state, "--json").stdout
        return json.loads(said)["jobs"][0]["phase"]

    def kill_daemons(self, trimtab, tune):
        daemons = trimtab.processes()
        os.killpg(tune.pid, signal.SIGKILL)
        for name in ("coordinator", "agent"):
            kill_hard(daemons[name])

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1 runs it")
    def test_the_process_group_of_the_command_is_killed(self):
        self.tune_again(lambda trimtab, tune: os.killpg(tune.pid, signal.SIGKILL))

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1 runs it")
    def test_its_daemons_are_killed_with_it(self):
        self.tune_again(self.kill_daemons)

    def test_its_daemons_are_killed_with_it_in_the_untuned_run(self):
        self.tune_again(self.kill_daemons, "untuned")

    def test_its_daemons_and_ranks_are_killed_with_it(self):
        def kill(trimtab, tune):
            ranks = rank_processes(trimtab.directory)
            self.kill_daemons(trimtab, tune)
            for pid in ranks:
                kill_hard(pid)

        self.tune_again(kill)


if __name__ == "__main__":
    unittest.main()
