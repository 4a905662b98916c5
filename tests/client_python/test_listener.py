"""Who listens at the agent's socket is looked at before anything is sent: a stranger is told nothing, and nothing that he says is done."""
import contextlib
import io
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
sys.path.insert(0, CLIENT)

from trimtab.connection import Connection, encode
from trimtab.listener import objection

STRANGER = 65534


class Connected:
    """To a listener of some user."""

    def __init__(self, user):
        self.user = user

    def getsockopt(self, *_):
        return struct.pack("=iII", 1, self.user, self.user)


def proc(uid_map, overflow="65534\n"):
    """In a container whose users are these."""
    texts = {"/proc/self/uid_map": uid_map, "/proc/sys/kernel/overflowuid": overflow}
    return mock.patch("builtins.open", lambda path, **_: io.StringIO(texts[path]))


class Rule(unittest.TestCase):
    def judge(self, user, own=1000, **environment):
        with mock.patch("os.geteuid", lambda: own):
            return objection(Connected(user), "/s", environment)

    def test_root_the_own_user_and_the_named_one_may_listen(self):
        for user in (0, 1000):
            self.assertEqual(self.judge(user), "")
        said = self.judge(1001)
        self.assertIn("user 1001 listens at /s, and expected was root or user 1000", said)
        self.assertIn("TRIMTAB_AGENT_UID=1001", said)
        self.assertEqual(self.judge(1001, TRIMTAB_AGENT_UID="1001"), "")
        for other in ("", "1002", "nobody"):
            self.assertNotEqual(self.judge(1001, TRIMTAB_AGENT_UID=other), "")
        self.assertNotEqual(self.judge(1000, own=0), "", "root obeys nobody who is not named")

    def test_in_a_container_nobody_is_believed_whom_it_cannot_tell_from_others(self):
        whole = proc("         0          0 4294967295\n")
        with whole:
            self.assertEqual(self.judge(65534, own=65534), "")
        for texts in (proc("0 1000 1\n"), proc("0 100000 65536\n"), proc("")):
            with texts:
                self.assertIn("may be anybody", self.judge(65534, own=65534, TRIMTAB_AGENT_UID="65534"))
                self.assertEqual(self.judge(0), "")
        with proc("0 1000 1\n1 100001 65535\n", "60001\n"):
            self.assertIn("may be anybody", self.judge(60001, own=60001))
            self.assertEqual(self.judge(65534, own=65534), "")


@unittest.skipUnless(os.geteuid() == 0, "needs root, to listen as somebody else")
class Stranger(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o777)
        self.path = os.path.join(folder.name, "agent.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(self.listener.close)
        self.listener.settimeout(5)
        os.seteuid(STRANGER)
        try:
            self.listener.bind(self.path)
            self.listener.listen(4)
        finally:
            os.seteuid(0)

    def told(self):
        """All that the next who connected has said."""
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(5)
            return connection.recv(1 << 16)

    def test_a_client_tells_a_stranger_nothing_and_its_job_once_why(self):
        now = [0.0]
        with contextlib.redirect_stderr(io.StringIO()) as lines:
            connection = Connection(self.path, lambda: {"type": "hello"}, lambda: now[0])
            for _ in range(3):
                now[0] += 2.0
                self.assertEqual(connection.poll(), [])
                self.assertFalse(connection.connected)
                self.assertEqual(self.told(), b"")
        self.assertEqual(lines.getvalue().count("listens at"), 1, lines.getvalue())
        with mock.patch.dict(os.environ, {"TRIMTAB_AGENT_UID": str(STRANGER)}):
            now[0] += 2.0
            connection.poll()
            self.assertEqual(self.told(), encode({"type": "hello"}))

    def test_a_process_does_not_become_what_a_stranger_says(self):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": CLIENT, "TRIMTAB_JOB": "j", "TRIMTAB_LAUNCH": "7", "SLURM_LOCALID": "0"}
        done = subprocess.run([sys.executable, "-m", "trimtab.slot", "--socket", self.path], env=environment, capture_output=True,
                              text=True, timeout=20)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"user {STRANGER} listens at {self.path}", done.stderr)
        self.assertEqual(self.told(), b"")


if __name__ == "__main__":
    unittest.main()
