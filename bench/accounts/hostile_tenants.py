"""A coordinator under a memory limit, with a tenant who hands in job upon job of 3.6 MiB and readers that do not read.

Another tenant asks for the status meanwhile, and her waiting is measured. Then the coordinator is killed and starts again on
what is stored. Usage, which made bench/results/hostile_tenants.md:

    python3 bench/accounts/hostile_tenants.py --programs build/release/bin --limit-mib 1024 --jobs 100
"""

import argparse
import hashlib
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time

JOB_BYTES = 3_600_000
STEPS = 500_000
READERS = 20
TENANTS = {"mallory": "operate", "ana": "operate"}


def token_of(name):
    return f"tt_{name}"


def write_tokens(path):
    lines = [(name, role, name) for name, role in TENANTS.items()] + [("wall", "view", "*")]
    text = "".join(f"{name} {role} {tenant} sha256:{hashlib.sha256(token_of(name).encode()).hexdigest()}\n" for name, role, tenant in lines)
    path.write_text(text)
    path.chmod(0o600)


class Coordinator:
    def __init__(self, program, directory, limit):
        self.directory = directory
        self.limit = limit
        self.program = program
        self.process = None
        self.port = 0

    def start(self):
        port_file = self.directory / "port"
        port_file.unlink(missing_ok=True)
        begun = time.monotonic()
        arguments = [self.program, "--listen", "127.0.0.1:0", "--state", self.directory / "state", "--port-file", port_file,
                     "--tokens", self.directory / "tokens", "--log-level", "warn", "--log-file", self.directory / "log"]
        self.process = subprocess.Popen(arguments, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (self.limit, self.limit)))
        while not port_file.exists():
            if self.process.poll() is not None or time.monotonic() - begun > 120:
                return None
            time.sleep(0.02)
        self.port = int(port_file.read_text())
        return time.monotonic() - begun

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        self.process.wait(60)

    def lives(self):
        return self.process.poll() is None

    def memory_mib(self):
        try:
            text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except FileNotFoundError:
            return {}
        return {line.split()[0]: int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith(("VmHWM", "VmRSS"))}

    def ask(self, who, method, path, body=None, timeout=60):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {token_of(who)}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def small_job(name):
    return {"schema": "trimtab.job/1", "name": name, "mode": "auto", "delivery": "live", "world_size": 1, "steps": 10, "working_directory": "/",
            "commands": {"describe": ["d"], "benchmark": ["b"], "train": ["t"]}}


# Of as many small pieces as can be, or of one large one.
def job_body(name, shape):
    job = small_job(name)
    if shape == "environment":
        job["environment"] = {f"V{i}": "x" for i in range(JOB_BYTES // 15)}
    elif shape == "arguments":
        job["commands"]["train"] = ["x"] * (JOB_BYTES // 5)
    else:
        job["model_json"] = "x" * JOB_BYTES
    return json.dumps({"job": job, "tune": True})


class Waiting(threading.Thread):
    """What a tenant waits for the status, again and again."""

    def __init__(self, coordinator):
        super().__init__(daemon=True)
        self.coordinator = coordinator
        self.seconds = []
        self.failures = 0
        self.over = False

    def run(self):
        while not self.over:
            begun = time.monotonic()
            try:
                status, _ = self.coordinator.ask("ana", "GET", "/v1/status", timeout=30)
                self.failures += status != 200
            except OSError:
                self.failures += 1
            self.seconds.append(time.monotonic() - begun)
            time.sleep(0.05)


def row_checksum(values):
    """As schema/src/store/row_checksum.cpp."""
    data = b""
    for value in values:
        if isinstance(value, int):
            data += b"i" + struct.pack("<q", value)
        elif isinstance(value, float):
            data += b"r" + struct.pack("<d", value + 0.0)
        else:
            text = value.encode()
            data += b"t" + struct.pack("<Q", len(text)) + text
    state = 0xCBF29CE484222325
    for byte in data:
        state = (state ^ byte) * 0x100000001B3 % 2**64
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53, 1):
        state = (state ^ state >> 33) * factor % 2**64
    return struct.unpack("<q", struct.pack("<Q", state or 1))[0]


def add_steps(directory, name):
    database = sqlite3.connect(directory / "state" / "coordinator.db")
    run, text = database.execute(
        "SELECT run, json FROM documents WHERE kind = 'state' AND run = (SELECT MAX(run) FROM jobs WHERE name = ?)", (name,)).fetchone()
    state = json.loads(text)
    state["initial"]["hash"] = state["incumbent"]["hash"] = "made"
    text = json.dumps(state)
    database.execute("UPDATE documents SET json = ?, checksum = ? WHERE kind = 'state' AND run = ?",
                     (text, row_checksum((run, "state", text)), run))
    steps = ((run, 1, step, 1, 0, 0, 0, 100.0, 2.0) for step in range(STEPS))
    rows = ((*row, row_checksum(row)) for row in steps)
    database.executemany("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()


def not_reading(coordinator, path):
    client = socket.create_connection(("127.0.0.1", coordinator.port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token_of('wall')}\r\n\r\n".encode())
    return client


def hand_in(coordinator, count, rows):
    taken, refused, reason = 0, 0, ""
    shapes = ("environment", "arguments", "text")
    for number in range(count):
        if not coordinator.lives():
            break
        try:
            status, body = coordinator.ask("mallory", "POST", "/v1/jobs", job_body(f"job{number}", shapes[number % len(shapes)]))
        except OSError:
            break
        taken += status in (200, 201)
        if status not in (200, 201):
            refused += 1
            reason = reason or f"{status}: {json.loads(body)['error']}"
    rows.append((f"jobs of 3.6 MiB handed in by one tenant, of {count}", f"{taken} taken, {refused} refused, " + ("it lives" if coordinator.lives() else "**it has ended**")))
    if reason:
        rows.append(("the first refusal", reason))


def run(arguments):
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        write_tokens(directory / "tokens")
        coordinator = Coordinator(arguments.programs / "trimtab-coordinator", directory, arguments.limit_mib << 20)
        coordinator.start()
        status, body = coordinator.ask("ana", "POST", "/v1/jobs", json.dumps({"job": small_job("long"), "tune": True}))
        assert status == 201, body
        status, body = coordinator.ask("ana", "POST", "/v1/jobs/long/stop")
        assert status == 200, body
        coordinator.stop()
        add_steps(directory, "long")
        coordinator.start()
        waiting = Waiting(coordinator)
        waiting.start()
        begun = time.monotonic()
        status, report = coordinator.ask("ana", "GET", "/v1/jobs/long/report", timeout=120)
        told = len(json.loads(report)["steps"]) if status == 200 else 0
        rows.append((f"report of a job with {STEPS:,} steps", f"{status}, {told:,} steps, {len(report) / 2**20:.1f} MiB in {time.monotonic() - begun:.2f} s"))
        hand_in(coordinator, arguments.jobs, rows)
        clients = []
        try:
            for _ in range(READERS):
                clients.append(not_reading(coordinator, "/v1/jobs/long/report"))
                time.sleep(0.3)
        except OSError:
            pass
        time.sleep(5)
        rows.append((f"{len(clients)} readers of that report that do not read", "it lives" if coordinator.lives() else "**it has ended**"))
        waiting.over = True
        waiting.join()
        waited = sorted(waiting.seconds)
        rows.append(("another tenant's wait for the status meanwhile", f"median {waited[len(waited) // 2] * 1e3:.0f} ms, longest {waited[-1]:.2f} s, {waiting.failures} of {len(waited)} without an answer"))
        memory = coordinator.memory_mib()
        if memory:
            rows.append(("its memory at most", f"{memory['VmHWM:']} MiB"))
        if coordinator.lives():
            coordinator.kill()
        took = coordinator.start()
        rows.append(("killed, and started again", f"answers after {took:.2f} s" if took else "**does not start**"))
        if took:
            status, body = coordinator.ask("ana", "POST", "/v1/jobs", json.dumps({"job": small_job("hers"), "tune": True}))
            rows.append(("a job of another tenant then", "taken" if status == 201 else f"{status}: {body.decode()}"))
            memory = coordinator.memory_mib()
            rows.append(("its memory then", f"{memory.get('VmRSS:', 0)} MiB, {memory.get('VmHWM:', 0)} MiB at most"))
            coordinator.kill()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--limit-mib", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=100)
    arguments = parser.parse_args()
    print(f"| with at most {arguments.limit_mib} MiB (RLIMIT_DATA) | |\n| --- | --- |")
    for what, found in run(arguments):
        print(f"| {what} | {found} |", flush=True)


if __name__ == "__main__":
    os.environ.pop("TRIMTAB_CLIENT_TOKEN_FILE", None)
    main()
