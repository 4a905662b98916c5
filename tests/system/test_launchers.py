"""`trimtab run` with launchers and shells that start the ranks: each is one job, and its card is near the script's own log."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from installation import is_dead, wait_until
from own_log import assert_near_own_log
from test_run import RunTest

JOBS = pathlib.Path(__file__).parent / "watched_jobs"
MPIRUN = ("mpirun", "--oversubscribe", "-n", "2", *(["--allow-run-as-root"] if os.geteuid() == 0 else []))
HAS_TORCH = subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, check=False).returncode == 0
# Rank 0 fails while the other one has much left to do.
FAILS = "test $OMPI_COMM_WORLD_RANK = 1 && exec sleep 600; sleep 1; exit 3"


class LaunchersTest(RunTest):
    def assert_card(self, done, job, ranks):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.directory / "out" / "card.json").is_file(), done.stderr)
        card = json.loads((self.directory / "out" / "card.json").read_text())
        self.assertEqual((card["job"], card["ranks"]), (job, ranks))
        own = [float(line) for line in (self.directory / "steps.log").read_text().split()]
        assert_near_own_log(self, card["step_ms"]["median"], own)
        self.assertEqual(done.stderr.count("the card is in"), 1, done.stderr)


@unittest.skipUnless(shutil.which("mpirun"), "Debian's openmpi-bin is not installed")
class OpenMpi(LaunchersTest):
    def launch(self, *words):
        return subprocess.run([str(word) for word in words], env=self.environment, cwd=self.directory, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=150)

    def job(self):
        return "/usr/bin/python3", JOBS / "under_mpirun.py", "--meet", "meet", "--seconds", 8, "--log", "steps.log"

    @unittest.skipUnless(HAS_TORCH, "Debian's python3-torch is not installed")
    def test_a_run_around_mpirun(self):
        self.assert_card(self.launch(*self.words(*MPIRUN, *self.job(), flags=["--out", "out"])), "under_mpirun", 2)

    @unittest.skipUnless(HAS_TORCH, "Debian's python3-torch is not installed")
    def test_mpirun_around_runs(self):
        """The runs of all ranks are one job, with one card."""
        self.assert_card(self.launch(*MPIRUN, *self.words(*self.job(), flags=["--out", "out"])), "under_mpirun", 2)

    def test_a_rank_that_fails_ends_the_launch_with_its_code(self):
        for order in ("around", "inside"):
            with self.subTest(order=order):
                ranks = ("sh", "-c", FAILS)
                done = self.launch(*(self.words(*MPIRUN, *ranks) if order == "around" else [*MPIRUN, *self.words(*ranks)]))
                self.assertEqual(done.returncode, 3, done.stderr)
                daemons = self.daemons()
                wait_until(lambda: all(is_dead(pid) for pid in daemons) and not self.daemons(), "the daemons' end", 20)


@unittest.skipUnless(HAS_TORCH, "Debian's python3-torch is not installed")
class Shells(LaunchersTest):
    def test_a_script_that_activates_an_environment_and_pipes(self):
        """With spaces in all paths, and a PYTHONPATH of its own before what it was given."""
        environment = self.directory / "my venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", environment], check=True, timeout=60)
        script = self.directory / "go now.sh"
        script.write_text(f'#!/bin/bash\nset -o pipefail\n. "{environment}/bin/activate"\nexport PYTHONPATH="{JOBS}:$PYTHONPATH"\n'
                          'python -m ranks 2 -- python -m job "$@" --log steps.log | tee "what it said.txt"\n')
        script.chmod(0o755)
        done = self.run_it(script, "--seconds", 8, flags=["--out", "out"], timeout=150)
        self.assert_card(done, "go-now", 2)
        self.assertEqual((self.directory / "what it said.txt").read_text(), done.stdout)


if __name__ == "__main__":
    unittest.main()
