"""Runs a script as `trimtab run` does, and writes what its ranks tell as JSON lines: each frame with its rank.

    record.py FRAMES.jsonl -- /usr/bin/python3 job.py --fault slow_rank --seconds 12

card_of_frames makes a card of that (tests/coordinator/card).
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
CLIENT = os.environ.get("TRIMTAB_CLIENT", os.path.join(ROOT, "client", "python"))
sys.path.insert(0, CLIENT)
from trimtab.connection import FrameReader  # noqa: E402  pylint: disable=wrong-import-position


class Agent:
    """Takes what ranks say."""

    def __init__(self, path):
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self.frames = []  # In the order of each rank.
        self._readers = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            reader = threading.Thread(target=self._read, args=(connection,), daemon=True)
            self._readers.append(reader)
            reader.start()

    def _read(self, connection):
        reader, rank = FrameReader(), None
        with connection:
            while chunk := connection.recv(1 << 16):
                for frame in reader.feed(chunk):
                    if frame.get("type") == "hello":
                        rank = frame["rank"]
                    self.frames.append({**frame, "rank": rank})

    def close(self):
        for reader in self._readers:
            reader.join(10)
        self._listener.close()


def environment(path):
    paths = [os.path.join(CLIENT, "watch_hook"), CLIENT, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "TRIMTAB_SOCKET": path, "TRIMTAB_JOB": "job", "TRIMTAB_WATCH": "1",
            "PYTHONPATH": ":".join(one for one in paths if one)}


def record(command, output=None, timeout=120):
    """The frames, and the command's exit code."""
    with tempfile.TemporaryDirectory(prefix="trimtab-record-") as folder:
        agent = Agent(os.path.join(folder, "agent"))
        code = subprocess.run(command, env=environment(os.path.join(folder, "agent")), stdout=output, stderr=output,
                              timeout=timeout, check=False).returncode
        agent.close()
        return agent.frames, code


def write(frames, path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(frame) + "\n" for frame in frames)


if __name__ == "__main__":
    place = sys.argv.index("--")
    told, exit_code = record(sys.argv[place + 1:])
    write(told, sys.argv[1])
    sys.exit(exit_code)
