"""The units as systemd reads them, and what they must not do to a training job."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from installation import BUILD
from supervised_daemon import UNITS, read_unit, upgrade_limit

AGENTS = ["trimtab-agent.service", "trimtab-agent@.service"]
# What `systemd-analyze security` may say at most; 10 is a unit without any hardening.
EXPOSURE = {"trimtab-coordinator.service": 1.5, **dict.fromkeys(AGENTS, 4.0)}
analyze = shutil.which("systemd-analyze")


@unittest.skipUnless(analyze, "no systemd-analyze here: apt-get install systemd")
class Analyzed(unittest.TestCase):
    def analyze(self, *arguments):
        return subprocess.run([analyze, *arguments], capture_output=True, text=True, timeout=60)

    def complaints(self, directory, unit, text):
        file = pathlib.Path(directory) / unit
        file.write_text(text.replace("/usr/bin/trimtab", f"{BUILD}/bin/trimtab"))
        # Its exit code says nothing of unknown keys.
        said = self.analyze("verify", "--man=no", "--recursive-errors=no", str(file)).stderr.splitlines()
        return [line for line in said if "trimtab" in line]

    def test_systemd_understands_every_line(self):
        with tempfile.TemporaryDirectory() as directory:
            for unit in EXPOSURE:
                text = (UNITS / unit).read_text()
                self.assertEqual(self.complaints(directory, unit, text), [])
                with self.subTest("and would say so of one that it does not"):
                    self.assertNotEqual(self.complaints(directory, unit, text.replace("KillMode=", "KilMode=")
                                                        .replace("ProtectClock=", "ProtectTheClock=")), [])

    def test_little_is_exposed(self):
        for unit, most in EXPOSURE.items():
            said = self.analyze("security", "--offline=true", "--no-pager", str(UNITS / unit)).stdout
            found = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
            self.assertIsNotNone(found, said)
            self.assertLessEqual(float(found.group(1)), most, said)


class Written(unittest.TestCase):
    def test_an_agent_limits_no_rank_and_ends_none(self):
        harmful = {"MemoryMax", "MemoryHigh", "MemoryLimit", "CPUQuota", "CPUAffinity", "LimitAS", "LimitDATA", "LimitCPU",
                   "Nice", "CPUSchedulingPolicy", "OOMScoreAdjust", "PrivateDevices", "PrivateTmp", "PrivateNetwork",
                   "MemoryDenyWriteExecute", "ProtectHome", "RuntimeMaxSec", "PrivateUsers"}
        for unit in AGENTS:
            service = read_unit(unit)["Service"]
            self.assertEqual(harmful & set(service), set())
            self.assertEqual(service["KillMode"], ["process"])
            self.assertEqual(service["OOMPolicy"], ["continue"])
            self.assertEqual(service["TasksMax"], ["infinity"])

    def test_every_daemon_is_watched_and_started_again_but_not_with_a_wrong_configuration(self):
        for unit in EXPOSURE:
            service = read_unit(unit)["Service"]
            self.assertEqual(service["Type"], ["notify"])
            self.assertIn("WatchdogSec", service)
            self.assertEqual(service["Restart"], ["on-failure"])
            self.assertEqual(service["RestartPreventExitStatus"], ["2"])
            self.assertEqual(service["ExecReload"], ["/bin/kill -HUP $MAINPID"])

    def test_ranks_write_files_that_their_groups_can_read(self):
        masks = {unit: read_unit(unit)["Service"]["UMask"] for unit in EXPOSURE}
        self.assertEqual(masks, {"trimtab-coordinator.service": ["0077"], **dict.fromkeys(AGENTS, ["0022"])})

    def test_both_agents_differ_in_whose_they_are_alone(self):
        own, template = (read_unit(unit)["Service"] for unit in AGENTS)
        whose = {"ExecStart", "User", "Group", "StateDirectory", "RuntimeDirectory"}
        self.assertEqual({key: value for key, value in own.items() if key not in whose},
                         {key: value for key, value in template.items() if key not in whose})

    def test_the_coordinator_has_time_to_bring_a_database_up_to_date(self):
        limit, = read_unit("trimtab-coordinator.service")["Service"]["TimeoutStartSec"]
        self.assertGreaterEqual(int(limit), upgrade_limit() + 300)

    def test_the_coordinator_is_limited(self):
        service = read_unit("trimtab-coordinator.service")["Service"]
        for limit in ("MemoryMax", "TasksMax", "CPUQuota", "LimitNOFILE"):
            self.assertIn(limit, service)


if __name__ == "__main__":
    unittest.main()
