"""The built `trimtab run` around the frameworks' own launchers. Skipped where nothing is built."""
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import unittest

from framework_job import LAUNCH_S, NEAR, SCRIPTS, WARM, FrameworkTest
from watched_job import PYTHON

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from installation import TRIMTAB  # noqa: E402

ACCELERATE = (str(pathlib.Path(PYTHON).parent / "accelerate"), "launch", "--cpu", "--num_machines", "1", "--mixed_precision", "no",
              "--dynamo_backend", "no")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # Open MPI's own words for it.


@unittest.skipUnless(TRIMTAB.exists(), "trimtab is not built")
class Accelerate(FrameworkTest):
    def run_it(self, *launcher, ranks, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB_", "SLURM_", "PYTHON"))}
        environment = {**kept, "TRIMTAB_RUN_AS_ROOT": "true", "TRIMTAB_STATE": os.path.join(self.folder, "state"), **more}
        words = [TRIMTAB, "run", "--out", "out", "--", *launcher, os.path.join(SCRIPTS, "accelerated.py")]
        done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LAUNCH_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        folder = pathlib.Path(self.folder)
        self.assertTrue((folder / "out" / "card.json").is_file(), done.stderr)
        card = json.loads((folder / "out" / "card.json").read_text())
        self.assertEqual((card["job"], card["ranks"]), ("accelerated", ranks), done.stderr)
        self.assertEqual(len(list(folder.glob("log-*.jsonl"))), ranks)
        own = [json.loads(line)["ms"] for line in (folder / "log-0.jsonl").read_text().splitlines()][WARM:]
        self.assertLess(abs(card["step_ms"]["median"] / statistics.median(own) - 1), NEAR)

    def test_accelerate_launch(self):
        self.run_it(*ACCELERATE, "--num_processes", "1", ranks=1)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_accelerate_launch_by_mpirun(self):
        """So it starts several ranks on CPUs."""
        pathlib.Path(self.folder, "hosts").write_text("localhost slots=2\n")
        self.run_it(*ACCELERATE, "--num_processes", "2", "--mpirun_hostfile", "hosts", ranks=2, **AS_ROOT)


if __name__ == "__main__":
    unittest.main()
