"""A job under `trimtab run` whose ranks are in network namespaces: the link that gives half is named, a healthy one is not."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from installation import TRIMTAB

JOBS = pathlib.Path(__file__).parents[1] / "watched_jobs"
JOB = ["/usr/bin/python3", JOBS / "job.py", "--model", "gpt", "--width", "96", "--layers", "3", "--length", "32", "--batch", "32",
       "--seconds", "8"]


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip") and shutil.which("tc"), "needs root, ip and tc")
class SlowLink(unittest.TestCase):
    def first_finding(self, halved):
        directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-slow-link-"))
        self.addCleanup(shutil.rmtree, directory, ignore_errors=True)
        command = [sys.executable, JOBS / "in_namespaces.py", "--ranks", 3, "--halved", halved, "--", *JOB]
        done = subprocess.run([str(word) for word in (TRIMTAB, "run", "--out", directory / "out", "--", *command)], text=True,
                              capture_output=True, env={**os.environ, "TRIMTAB_STATE": str(directory / "state")}, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((directory / "out" / "card.json").read_text())["findings"][0], done.stderr

    def test_a_halved_link_is_named(self):
        finding, said = self.first_finding(1)
        self.assertEqual(finding["name"], "slow_link", said)
        self.assertIn("10.77.0.2", finding["why"])

    def test_links_that_are_alike_are_no_finding(self):
        finding, said = self.first_finding(-1)
        self.assertEqual(finding["name"], "healthy", said)


if __name__ == "__main__":
    unittest.main()
