"""The daemons as systemd runs them: their units' commands and the configuration files of the packages, a manager that is
told when they serve, reload and stop, and a watchdog."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request

from installation import TRIMTAB, free_port
from supervised_daemon import Manager

WATCHDOG_USEC = 300_000


class Service(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="trimtab-service-")
        self.addCleanup(place.cleanup)
        self.directory = pathlib.Path(place.name)

    def lead_through(self, manager):
        """From READY to the end, as every daemon must answer it."""
        process = manager.process
        for _ in range(3):
            manager.wait_for("WATCHDOG", seconds=1)
        os.kill(process.pid, signal.SIGHUP)
        reloading = manager.wait_for("RELOADING", seconds=5)
        self.assertGreater(int(reloading["MONOTONIC_USEC"]), 0)
        manager.wait_for("READY", seconds=5)
        with self.subTest("a daemon that hangs gives no sign of life"):
            os.kill(process.pid, signal.SIGSTOP)
            while manager.receive(0.1):
                pass
            self.assertIsNone(manager.receive(2 * WATCHDOG_USEC / 1e6))
            os.kill(process.pid, signal.SIGCONT)
            manager.wait_for("WATCHDOG", seconds=2)
        os.kill(process.pid, signal.SIGTERM)
        manager.wait_for("STOPPING", seconds=5)
        self.assertEqual(process.wait(timeout=20), 0, manager.log())

    def test_the_coordinator(self):
        tokens = self.directory / "tokens"
        made = subprocess.run([str(TRIMTAB), "token", "add", "ana", "--role", "operate", "--tokens", str(tokens)],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        port = free_port()
        with Manager(self.directory, "trimtab-coordinator.service") as manager:
            manager.start(watchdog_usec=WATCHDOG_USEC, TRIMTAB_TOKENS=str(tokens), TRIMTAB_LISTEN=f"127.0.0.1:{port}")
            ready = manager.wait_for("READY")
            self.assertEqual(ready["STATUS"], "0 of 0 nodes connected, 0 jobs active")
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass  # it was ready
            self.lead_through(manager)

    def test_a_coordinator_without_its_tokens_does_not_serve(self):
        with Manager(self.directory, "trimtab-coordinator.service") as manager:
            manager.start(TRIMTAB_LISTEN="127.0.0.1:0", TRIMTAB_TOKENS=str(self.directory / "tokens"))
            self.assertNotEqual(manager.process.wait(timeout=20), 0)
            self.assertIn("tokens", manager.log())
            self.assertIsNone(manager.receive(0.01))

    def test_the_agent(self):
        port = free_port()
        with Manager(self.directory, "trimtab-agent.service") as manager:
            manager.start(watchdog_usec=WATCHDOG_USEC, TRIMTAB_METRICS_PORT=str(port), TRIMTAB_SAMPLE_PERIOD="0s",
                          TRIMTAB_COORDINATOR=f"127.0.0.1:{free_port()}")
            ready = manager.wait_for("READY")
            self.assertRegex(ready["STATUS"], r"^coordinator 127\.0\.0\.1:\d+ absent, 0 ranks run$")
            self.assertTrue((self.directory / "run/trimtab/agent.sock").is_socket())
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                self.assertIn(b"trimtab_agent_ranks_running 0", answer.read())
            self.lead_through(manager)

    def test_a_wrong_configuration_ends_with_the_code_that_is_not_tried_again(self):
        with Manager(self.directory, "trimtab-agent.service") as manager:
            manager.start("--memory", "plenty")
            self.assertEqual(manager.process.wait(timeout=20), 2)
            self.assertIsNone(manager.receive(0.01))


if __name__ == "__main__":
    unittest.main()
