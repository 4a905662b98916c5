"""A rank of somebody's own training script: it speaks the frames of docs/protocols.md, and comes again when its agent does.

Run as a program: RANK and WORLD_SIZE say who it is, and one line of standard input ends it well.
"""
import json
import os
import select
import socket
import struct
import sys
import time


class Agent:
    """The agent behind TRIMTAB_SOCKET, as far as it is there."""

    def __init__(self, hello):
        self._path = os.environ["TRIMTAB_SOCKET"]
        self._hello = hello
        self._socket = None

    def say(self, frame):
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.connect(self._path)
                self._send(self._hello())
            self._send(frame)
        except OSError:
            if self._socket is not None:
                self._socket.close()
            self._socket = None

    def _send(self, frame):
        body = json.dumps(frame).encode()
        self._socket.sendall(struct.pack("<I", len(body)) + body)
        while select.select([self._socket], [], [], 0)[0]:  # what it says changes nothing here
            if not self._socket.recv(65536):
                raise OSError("the agent is gone")


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    step = 0
    agent = Agent(lambda: {"type": "hello", "version": 1, "pid": os.getpid(), "watched": True, "job": os.environ["TRIMTAB_JOB"],
                           "rank": rank, "world_size": world_size, "local_rank": rank, "epoch": 0, "step": step})
    agent.say({"type": "facts", "framework": "ddp", "device": "cpu", "batch_size": 4})
    while not select.select([sys.stdin], [], [], 0.02)[0]:
        step += 1
        agent.say({"type": "step", "step": step, "epoch": 0, "wall_ns": 20_000_000, "cpu_ns": 15_000_000, "loss": 2.5, "count": 4,
                   "microbatches": 1, "parts": {"data_ns": 1_000_000, "forward_ns": 6_000_000, "backward_ns": 9_000_000,
                                                "optimizer_ns": 2_000_000, "communication_ns": 1_000_000}})
    agent.say({"type": "bye", "step": step})
    time.sleep(0.2)


if __name__ == "__main__":
    main()
