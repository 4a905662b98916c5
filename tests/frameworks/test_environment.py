"""scripts/frameworks: half an environment is never taken for whole, and a machine without network says so."""
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "frameworks"
UNREACHABLE = 75


class Environment(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="trimtab-frameworks-")
        self.addCleanup(folder.cleanup)
        self.place = Path(folder.name) / "environment"

    def make(self):
        environment = {**os.environ, "TRIMTAB_FRAMEWORKS": str(self.place), "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
                       "PIP_FIND_LINKS": ""}
        environment.pop("PYTHONPATH", None)
        return subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=False)

    def test_without_network(self):
        for _ in range(2):  # What the first try has left is no environment for the second.
            made = self.make()
            self.assertEqual((made.returncode, made.stdout), (UNREACHABLE, ""), made.stderr)
            self.assertRegex(made.stderr, r"\Ascripts/setup --frameworks: the package index cannot be reached: .+\n\Z")
            self.assertFalse((self.place / "complete").exists())

    def test_a_folder_of_somebody_else_is_left_alone(self):
        self.place.mkdir()
        (self.place / "thesis.tex").write_text("mine")
        made = self.make()
        self.assertEqual((made.returncode, made.stdout), (1, ""))
        self.assertIn("is no Python environment", made.stderr)
        self.assertEqual((self.place / "thesis.tex").read_text(), "mine")

    def test_of_other_pins_it_is_made_anew(self):
        self.place.mkdir()
        (self.place / "pyvenv.cfg").write_text("")
        (self.place / "complete").write_text("of other pins\n")
        self.assertEqual(self.make().returncode, UNREACHABLE)
        self.assertFalse((self.place / "complete").exists())


if __name__ == "__main__":
    unittest.main()
