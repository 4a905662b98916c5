"""`srun … trimtab run -- COMMAND` in a real queue: the tasks of a step are one job, on one node and on two."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from cluster import BUILD, programs, wait_until
from local_slurm import LocalSlurm, missing_programs

TRIMTAB = BUILD / "bin" / "trimtab"
# Writes what it was told, then waits for a file.
TELLS = ('import os, pathlib, time\n'
         'here = pathlib.Path("told") / os.environ["SLURM_PROCID"]\n'
         'here.write_text(os.environ.get("TRIMTAB_JOB", "bare") + " " + os.environ.get("TRIMTAB_SOCKET", "-"))\n'
         'while not pathlib.Path("go").exists():\n'
         '    time.sleep(0.1)\n'
         'raise SystemExit(3 if os.environ["SLURM_PROCID"] == "1" else 0)\n')


@unittest.skipIf(missing_programs(), missing_programs())
class RunStep(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-run-step-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        (self.directory / "told").mkdir()
        (self.directory / "tmp").mkdir()
        slurm = LocalSlurm(self.directory / "slurm", nodes=2)
        slurm.environment = {**programs(slurm.environment), "TMPDIR": str(self.directory / "tmp"),
                             "TRIMTAB_STATE": str(self.directory / "state")}
        self.slurm = self.enterContext(slurm)

    def step(self, *flags):
        step = subprocess.Popen(["srun", *flags, str(TRIMTAB), "run", "--name", "step", "--", "/usr/bin/python3", "-c", TELLS],
                                env=self.slurm.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.addCleanup(step.communicate)
        self.addCleanup(step.kill)
        return step

    def told(self, step, tasks):
        """What each task was told: (job, socket)."""
        def all_told():
            found = [file.read_text().split() for file in sorted((self.directory / "told").iterdir())]
            return found if len(found) == tasks and all(found) else step.poll() is not None and [["ended", ""]]
        return wait_until(all_told, "the tasks' words", 60)

    def finish(self, step):
        (self.directory / "go").touch()
        text, _ = step.communicate(timeout=60)
        self.assertEqual(step.returncode, 3, text)  # that of rank 1

    def test_tasks_on_two_nodes(self):
        step = self.step("--nodes=2", "--ntasks=2")
        told = self.told(step, 2)
        self.assertEqual([job for job, _ in told], ["step"] * 2)
        self.assertEqual(len({socket for _, socket in told}), 2)
        state = pathlib.Path(told[1][1]).parents[2]
        shown = json.loads(self.slurm.run(str(TRIMTAB), "status", "--json", "--state", str(state)))
        self.assertEqual({node["name"]: node["state"] for node in shown["nodes"]}, {"n0": "connected", "n1": "connected"})
        self.finish(step)

    def test_tasks_on_one_node(self):
        step = self.step("--nodes=1", "--ntasks=3", "--overcommit")
        told = self.told(step, 3)
        self.assertEqual([job for job, _ in told], ["step"] * 3)
        self.assertEqual({socket for _, socket in told}, {str(self.directory / "state/agents/n0/agent.sock")})
        self.finish(step)


if __name__ == "__main__":
    unittest.main()
