"""Runs a script as `trimtab run` does, and writes what its ranks tell as JSON lines: each frame with its rank.

    record.py FRAMES.jsonl -- /usr/bin/python3 job.py --fault slow_rank --seconds 12

card_of_frames makes a card of that (tests/coordinator/card).
"""

import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
CLIENT = os.environ.get("TRIMTAB_CLIENT", os.path.join(ROOT, "client", "python"))
sys.path.insert(0, CLIENT)
sys.path.insert(0, os.path.join(ROOT, "tests", "client_python"))
from recording_agent import Agent  # noqa: E402  pylint: disable=wrong-import-position


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
        # The first frame of a connection is its hello.
        return [{**frame, "rank": frames[0].get("rank")} for frames, frame in agent.arrived], code


def write(frames, path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(frame) + "\n" for frame in frames)


if __name__ == "__main__":
    place = sys.argv.index("--")
    told, exit_code = record(sys.argv[place + 1:])
    write(told, sys.argv[1])
    sys.exit(exit_code)
