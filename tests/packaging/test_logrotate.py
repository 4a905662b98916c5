"""The rules for logrotate, as logrotate itself carries them out: on files of a directory of the test's, at ages that are given."""
import datetime
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "logrotate" / "trimtab"
PATH = os.environ["PATH"] + ":/usr/sbin"
logrotate = shutil.which("logrotate", path=PATH)


@unittest.skipUnless(logrotate, "no logrotate here: apt-get install logrotate")
class Logrotate(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.rules = self.directory / "rules"
        self.rules.write_text(RULES.read_text().replace("/var/log/", f"{self.directory}/"))
        self.rules.chmod(0o644)
        self.state = self.directory / "state"
        self.seen = {}

    def log(self, name, age_days, seen_days):
        """A file that was written to so long ago, which logrotate has seen, and let be, so long ago."""
        path = self.directory / name
        path.write_text("something\n")
        written = datetime.datetime.now().timestamp() - age_days * 86400
        os.utime(path, (written, written))
        self.seen[path] = datetime.datetime.now() - datetime.timedelta(days=seen_days)
        return path

    def rotate(self, *options):
        lines = [f'"{path}" {at.year}-{at.month}-{at.day}-0:0:0' for path, at in self.seen.items()]
        self.state.write_text("\n".join(["logrotate state -- version 2", *lines]) + "\n")
        done = subprocess.run([logrotate, *options, "--state", self.state, self.rules], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("error:", done.stderr)
        return done.stderr

    def test_rules_are_understood(self):
        said = self.rotate("--debug")
        self.assertIn("trimtab-slurm.log", said)
        self.assertIn("after 1 days", said)

    def test_an_agents_log_lives_thirty_days_whatever_the_month(self):
        # Last seen in another month, so that a month has begun since, whatever day it is.
        young = self.log("trimtab-agent-1-n0.log", age_days=1, seen_days=31)
        almost = self.log("trimtab-agent-2-n0.log", age_days=29.9, seen_days=31)
        old = self.log("trimtab-agent-3-n0.log", age_days=30.1, seen_days=1)
        self.rotate()
        self.assertTrue(young.exists())
        self.assertTrue(almost.exists())
        self.assertFalse(old.exists())
        self.assertEqual(sorted(path.name for path in self.directory.glob("*.log*")), sorted([young.name, almost.name]))

    def test_the_prologs_log_is_kept_half_a_year(self):
        log = self.log("trimtab-slurm.log", age_days=1, seen_days=40)
        self.rotate()
        self.assertEqual(log.read_text(), "")
        self.assertEqual((self.directory / "trimtab-slurm.log.1").read_text(), "something\n")


if __name__ == "__main__":
    unittest.main()
