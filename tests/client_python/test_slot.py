"""A process becomes the rank that the agent says, and says why where there is none."""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client", "python")
sys.path.insert(0, CLIENT)

from trimtab.connection import FrameReader, encode

SHOW = ("import json, os; print(json.dumps({**{k: os.environ.get(k) for k in "
        "('RANK', 'WORLD_SIZE', 'TRIMTAB_RANK', 'SLURM_JOB_ID', 'CUDA_VISIBLE_DEVICES')}, "
        "'cwd': os.getcwd(), 'leads': os.getpgrp() == os.getpid(), 'pid': os.getpid()}))")


class SlotProcess(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.asked = []

    def serve(self, path, answer):
        """An agent for one process: notes what it asks, and answers."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(30)

        def one():
            with listener, listener.accept()[0] as connection:
                reader = FrameReader()
                while not self.asked:
                    self.asked += reader.feed(connection.recv(1 << 16))
                connection.sendall(encode(answer))
        thread = threading.Thread(target=one)
        thread.start()
        self.addCleanup(thread.join)

    def run_slot(self, path, **environment):
        own = {"PATH": os.environ["PATH"], "PYTHONPATH": CLIENT, "TRIMTAB_JOB": "gpt", "TRIMTAB_LAUNCH": "7",
               "TRIMTAB_VARIANT": "trial", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "12", "SLURMD_NODENAME": "n3",
               "CUDA_VISIBLE_DEVICES": "1", **environment}
        return subprocess.run([sys.executable, "-m", "trimtab.slot", "--socket", path], env={k: v for k, v in own.items() if v is not None},
                              capture_output=True, text=True, timeout=60)

    def test_it_runs_what_the_agent_says_in_its_own_place(self):
        log = os.path.join(self.directory, "rank.log")
        self.serve(os.path.join(self.directory, "n3.sock"), {
            "type": "run", "arguments": [sys.executable, "-c", SHOW], "working_directory": self.directory, "log": log,
            "environment": {"TRIMTAB_RANK": "5", "TRIMTAB_LOCAL_RANK": "1", "TRIMTAB_WORLD_SIZE": "8"}})
        done = self.run_slot(os.path.join(self.directory, "{node}.sock"))
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(log, encoding="utf-8") as file:
            said = json.load(file)
        self.assertEqual((said["RANK"], said["WORLD_SIZE"], said["TRIMTAB_RANK"]), ("5", "8", "5"))
        self.assertEqual((said["SLURM_JOB_ID"], said["CUDA_VISIBLE_DEVICES"]), ("12", "1"), "what Slurm gave stays")
        self.assertEqual(said["cwd"], os.path.realpath(self.directory))
        self.assertTrue(said["leads"])
        [asked] = self.asked
        self.assertEqual((asked["type"], asked["job"], asked["launch"], asked["variant"], asked["local_rank"]), ("slot", "gpt", 7, "trial", 1))
        self.assertEqual(asked["pid"], said["pid"])

    def test_a_refusal_is_said_and_fails(self):
        path = os.path.join(self.directory, "agent.sock")
        self.serve(path, {"type": "refused", "message": "the launch is over"})
        done = self.run_slot(path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the launch is over", done.stderr)

    def test_what_is_missing_is_named(self):
        self.assertIn("TRIMTAB_LAUNCH not set", self.run_slot("x", TRIMTAB_LAUNCH=None).stderr)
        self.assertIn("SLURM_LOCALID", self.run_slot("x", SLURM_LOCALID=None).stderr)


if __name__ == "__main__":
    unittest.main()
