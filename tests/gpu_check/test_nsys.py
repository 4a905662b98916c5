"""The section beside Nsight Systems: with a program in its place, and what is judged of both."""
import os
import pathlib
import tempfile
import unittest

from harness import HAS_PYTORCH, LIB

from gpu_check import nsys_check, report, taken_ring
from gpu_check.installation import Installation
from gpu_check.machine import with_this_python
from gpu_check.sections import Budget, Failed, Skipped

# Runs what stands behind its options, and has seen the kernels that it is told of.
NSYS = """#!/usr/bin/python3
import pathlib, sqlite3, subprocess, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
words = sys.argv[sys.argv.index(options[-1]) + 1:]
done = subprocess.run(words, check=False)
path = pathlib.Path(options[-1].removeprefix("--output=") + ".sqlite")
path.unlink(missing_ok=True)
with sqlite3.connect(path) as database:
    database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
    database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?)", [(1,)] * SEEN)
sys.exit(done.returncode)
"""


def counts(beside=2001, kernels=2001, state=taken_ring.RUNNING, windows=(), alone=2001):
    return {"launches": 2000, "alone": alone, "beside": beside,
            "trimtab": {"kernels": kernels, "state": state, "windows": list(windows)}}


class Told(unittest.TestCase):
    def test_nobody_loses_a_record_silently(self):
        nsys_check.told_of_both(counts())
        nsys_check.told_of_both(counts(kernels=0, state=10))
        nsys_check.told_of_both(counts(kernels=0, windows=["foreign_profiler"]))
        with self.assertRaisesRegex(Failed, "says nothing of it"):
            nsys_check.told_of_both(counts(kernels=1999))
        with self.assertRaisesRegex(Failed, "nsys saw 2000 of 2001"):
            nsys_check.told_of_both(counts(beside=2000))
        with self.assertRaisesRegex(Skipped, "even without Trimtab"):
            nsys_check.told_of_both(counts(alone=0))

    def test_the_table(self):
        text = "\n".join(report.nsys(counts(kernels=0, windows=["foreign_profiler"])))
        self.assertIn("beside Trimtab 2001; Trimtab recorded 0, CUPTI's state 1, not recorded: foreign_profiler", text)


class Section(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "lib").symlink_to(LIB)
        self.installation = Installation(self.folder, "/nowhere", "/nowhere")

    def test_without_nsys_it_says_what_to_install(self):
        with self.assertRaisesRegex(Skipped, "install Nsight Systems"):
            nsys_check.nsys(self.installation, {"PATH": str(self.folder)}, Budget(10))

    def run_with(self, seen):
        if not HAS_PYTORCH or not self.installation.library.exists():
            self.skipTest(f"no PyTorch, or no {self.installation.library}")
        tool = self.folder / "nsys"
        tool.write_text(NSYS.replace("SEEN", str(seen)))
        tool.chmod(0o755)
        environment = with_this_python(os.environ)
        environment["PATH"] = f"{self.folder}:{environment['PATH']}"
        return nsys_check.nsys(self.installation, environment, Budget(100), device="cpu")

    def test_both_are_asked_and_a_process_without_cuda_says_so(self):
        result = self.run_with(2001)["nsys"]
        self.assertEqual((result["alone"], result["beside"]), (2001, 2001))
        self.assertEqual(result["trimtab"], {"kernels": 0, "state": 0, "windows": []})
        with self.assertRaisesRegex(Skipped, "nsys sees 0 of 2000"):
            self.run_with(0)


if __name__ == "__main__":
    unittest.main()
