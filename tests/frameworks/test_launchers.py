"""The built `trimtab run` around the frameworks' own launchers. Skipped where nothing is built."""
import pathlib
import shutil
import unittest

from card_test import CardTest
from watched_job import PYTHON

ACCELERATE = (str(pathlib.Path(PYTHON).parent / "accelerate"), "launch", "--cpu", "--num_machines", "1", "--mixed_precision", "no",
              "--dynamo_backend", "no")
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # Open MPI's own words for it.


class Accelerate(CardTest):
    def test_accelerate_launch(self):
        self.assertEqual(self.card("accelerated.py", *ACCELERATE, "--num_processes", "1")["ranks"], 1)

    @unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
    def test_accelerate_launch_by_mpirun(self):
        """So it starts several ranks on CPUs."""
        pathlib.Path(self.folder, "hosts").write_text("localhost slots=2\n")
        two = ("--num_processes", "2", "--mpirun_hostfile", "hosts")
        self.assertEqual(self.card("accelerated.py", *ACCELERATE, *two, **AS_ROOT)["ranks"], 2)


if __name__ == "__main__":
    unittest.main()
