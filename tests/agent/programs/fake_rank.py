"""A job's three commands for tests, without training: `fake_rank.py describe|benchmark|train ...`. Standard library only.

train speaks the agent's socket protocol: a step every few milliseconds, acknowledges every plan, activates it when it is
committed, connects again when the agent was away, ends on stop.
"""
import argparse
import json
import os
import selectors
import socket
import struct
import sys
import time


def frame(message):
    body = json.dumps(message).encode()
    return struct.pack("<I", len(body)) + body


class Rank:
    def __init__(self):
        self.job = os.environ["TRIMTAB_JOB"]
        self.rank = int(os.environ["TRIMTAB_RANK"])
        self.epoch = int(os.environ["TRIMTAB_EPOCH"])
        self.step = 0
        self.stop_after = None
        self.connection = None
        self.bytes = b""

    def run(self, steps, step_log):
        while self.step < steps and (self.stop_after is None or self.step <= self.stop_after):
            self.exchange()
            self.step += 1
            if step_log:
                step_log.write(f"{self.step} {os.getpid()}\n")
                step_log.flush()
            self.say({"type": "step", "step": self.step, "epoch": self.epoch, "wall_ns": 5000000, "cpu_ns": 4000000,
                      "loss": 1.0 / self.step, "samples": "ab", "peak_bytes": 1000})
            time.sleep(0.005)
        self.say({"type": "bye", "step": self.step})
        print("bye", flush=True)

    def exchange(self):
        if self.connection is None and not self.connect():
            return
        try:
            while chunk := self.connection.recv(65536, socket.MSG_DONTWAIT):
                self.bytes += chunk
            self.lost()
        except BlockingIOError:
            pass
        except OSError:
            self.lost()
        while len(self.bytes) >= 4 and len(self.bytes) >= 4 + struct.unpack_from("<I", self.bytes)[0]:
            length = struct.unpack_from("<I", self.bytes)[0]
            message, self.bytes = json.loads(self.bytes[4 : 4 + length]), self.bytes[4 + length :]
            self.handle(message)

    def handle(self, message):
        if message["type"] == "plan_propose":
            self.say({"type": "plan_ack", "epoch": message["epoch"], "step": self.step})
        elif message["type"] == "plan_commit":
            self.epoch = message["epoch"]
            self.say({"type": "plan_active", "epoch": self.epoch, "step": self.step, "switch_ns": 7, "peak_bytes": 8,
                      "save_ns": 4, "move_ns": 3})
        elif message["type"] == "stop":
            self.stop_after = message["step"]

    def connect(self):
        attempt = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            attempt.connect(os.environ["TRIMTAB_SOCKET"])
        except OSError:
            attempt.close()
            return False
        self.connection, self.bytes = attempt, b""
        self.say({"type": "hello", "version": 1, "pid": os.getpid(), "job": self.job, "rank": self.rank, "world_size": 2,
                  "epoch": self.epoch, "step": self.step})
        return True

    def lost(self):
        self.connection.close()
        self.connection = None

    def say(self, message):
        if self.connection is not None:
            try:
                self.connection.sendall(frame(message))
            except OSError:
                self.lost()


def benchmark(options):
    with open(options.requests) as file:
        items = json.load(file)["items"]
    print("benchmark begins")
    for index, item in enumerate(items):
        if item["kind"] == "process":
            print(json.dumps({"item": index, "error": "cannot measure that"}))
            continue
        cost = {"kind": "operator_forward", "subject": item["cost_key"], "dtype": "float32", "samples": 1}
        print(json.dumps({"item": index, "cost": cost, "values": [100, 110 + options.rank]}))
        print(json.dumps({"item_done": index}), flush=True)
    if options.fail:
        sys.exit("it broke")
    if options.hang:
        time.sleep(60)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["describe", "benchmark", "train"])
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--requests")
    parser.add_argument("--trace", help="a file that gets a line each time this runs")
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--step-log", help="a file that gets each step's number and process")
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--hang", action="store_true")
    options = parser.parse_args()
    if options.trace:
        with open(options.trace, "a") as file:
            file.write(f"{options.command} {options.rank}\n")
    if options.command == "describe":
        print("building the model: {layers: 2}")  # as models do
        print(json.dumps({"schema": "trimtab.model/1", "described": os.environ.get("TRIMTAB")}))
    elif options.command == "benchmark":
        benchmark(options)
    else:
        Rank().run(options.steps, open(options.step_log, "a") if options.step_log else None)


if __name__ == "__main__":
    main()
