"""A real job whose plans are switched over and over: coordinator, an agent a rank behind a link that can be cut, ranks.

Where this machine allows it each agent and its ranks are on a node of their own, and the nodes can be cut off from each
other (rank_network.py). The job's trials are as short as they can be, and what tuning would end is begun anew as another run.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from cut_link import CutLink
from installation import BUILD, ROOT, is_dead, state_of, wait_until
from rank_network import INTERFACE, RankNetwork, missing
from step_logs import StepLogs

SNAPSHOT_EVERY = 10
GUARDED_STEPS = 20  # After a change no periodic snapshot is written for so long (trainer/README.md).
DISK = "8m"  # Some snapshots of the tiny model.

MODEL = """name = "tiny"
layers = 2
hidden = 32
heads = 2
sequence = 16
vocabulary = 128
global_batch = 8
"""


def knobs_of(ranks, number):
    """What the plans of a run may set. Tiny operators gain nothing from being split, so every other run of four ranks has one stage
    and two halves of a microbatch: there splits and sub-batches are much of what is left to try."""
    knobs = {"sliced_microbatches": True, "sharded": True}
    if ranks < 4:
        return knobs
    return {**knobs, "tensor_parallel": True, "sub_batches": True, "pipeline": number % 2 == 0}


def job_document(directory, ranks, number, memory, environment):
    """As it travels between processes (schema/json/job.schema.json)."""
    run = f"run{number}"

    def command(program, *words):
        # Batch work: see tests/trainer/rank_programs.py.
        return ["chrt", "--batch", "0", "/usr/bin/python3", f"trainer/{program}.py", "--config", f"{directory}/gpt.toml", *words]

    place = ["--rank", "{rank}", "--local-rank", "{local_rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}"]
    return {
        "schema": "trimtab.job/1", "name": "switched", "mode": "auto", "delivery": "live", "world_size": ranks,
        "memory_limit_bytes": memory, "steps": 10**9, "working_directory": str(ROOT),
        "commands": {
            "describe": command("describe"),
            "benchmark": command("benchmark", *place, "--requests", "{requests}"),
            "train": command("train", *place, "--plan", "{plan}", "--steps", "{steps}", "--pin", "off",
                             "--memory-limit", "{memory_limit_bytes}", "--snapshots", f"{directory}/disk/{run}",
                             "--snapshot-every", str(SNAPSHOT_EVERY), "--log", f"{directory}/{run}.log", "--log-ranks")},
        "hang_ns": 15 * 10**9,  # Nothing here takes long but what was stopped.
        "environment": {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TRIMTAB_TEST_ORDERS": f"{directory}/orders",
                        **environment},
        "knobs": knobs_of(ranks, number),
        "trials": {"warmup_steps": 0, "measure_steps": 1, "blocks": 1, "max_trials": 100000, "minimum_gain": 0.0,
                   "overhead": 1.0, "deadline_ns": 15 * 10**9},
        # Crashes are made on purpose here: any step trained forgives them.
        "crashes": {"limit": 99, "within_ns": 10**6, "within_steps": 1}}


class Disk:
    """A small file system that can be full."""

    def __init__(self, path, size=DISK):
        self._ballast = path / "ballast"
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(path)], check=True)

    def fill(self):
        try:
            with open(self._ballast, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 14))
        except OSError:
            pass

    def free(self):
        self._ballast.unlink(missing_ok=True)


class Link:
    """A CutLink whose watcher can be set later."""

    def __init__(self, port, listener):
        self.watch = lambda kind, when: None
        self._link = CutLink(port, lambda kind, when: self.watch(kind, when), listener)
        self.port, self.cut, self.hold, self.swallow = self._link.port, self._link.cut, self._link.hold, self._link.swallow
        self.close = self._link.close


class SwitchedJob:
    def __init__(self, ranks):
        self.ranks = ranks
        self.bound = SNAPSHOT_EVERY + GUARDED_STEPS
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-switched-"))
        self.daemons, self.links, self.runs, self.disk, self.network = {}, [], 0, None, None
        self.logs = StepLogs([], self.bound)

    def __enter__(self):
        (self.directory / "disk").mkdir()
        (self.directory / "gpt.toml").write_text(MODEL)
        if os.environ.get("TRIMTAB_TEST_MOUNTS"):
            self.disk = Disk(self.directory / "disk")
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
            self._port = any_port.getsockname()[1]
        if not missing():
            self.network = RankNetwork(self.ranks)
        self.links = [Link(self._port, self.network and self.network.listener(node)) for node in range(self.ranks)]
        self.start_missing_daemons()
        wait_until(lambda: self._get("/v1/status") is not None, "a coordinator that listens", 30)
        return self

    def __exit__(self, kind, value, trace):
        self.wake_stopped()
        for name in ("coordinator", *(f"agent{node}" for node in range(self.ranks))):
            self.daemons[name].kill()
            self.daemons[name].wait()
        for pid in self.rank_pids().values():
            os.kill(pid, signal.SIGKILL)
        for link in self.links:
            link.close()
        if self.network:
            self.network.close()
        if self.disk:
            subprocess.run(["umount", str(self.directory / "disk")], check=False)
        if os.environ.get("TRIMTAB_KEEP"):
            print(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    # The daemons.

    def start_missing_daemons(self):
        commands = {"coordinator": [BUILD / "bin" / "trimtab-coordinator", "--listen", f"127.0.0.1:{self._port}", "--state",
                                    self.directory / "coordinator", "--search-time", "300ms", "--search-evaluations", "4000"]}
        for node, link in enumerate(self.links):
            commands[f"agent{node}"] = [
                BUILD / "bin" / "trimtab-agent", "--coordinator", f"127.0.0.1:{link.port}", "--node", f"n{node}", "--devices", "1",
                "--memory", "2GiB", "--socket", self.directory / f"agent{node}.sock", "--state", self.directory / f"agent{node}",
                "--metrics-port", "0", "--sample-period", "0s", "--kill-grace", "1s",
                *(("--address", self.network.address(node)) if self.network else ())]
        for name, words in commands.items():
            if name in self.daemons and self.daemons[name].poll() is None:
                continue
            with open(self.directory / f"{name}.log", "a") as log, self._place_of(name):
                self.daemons[name] = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=log,
                                                      stderr=log, start_new_session=True)

    def _place_of(self, daemon):
        if self.network and daemon != "coordinator":
            return self.network.entered(int(daemon.removeprefix("agent")))
        return contextlib.nullcontext()

    def wake_stopped(self):
        for pid in (*(daemon.pid for daemon in self.daemons.values()), *self.rank_pids().values()):
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    # The ranks.

    def rank_pids(self):
        """Rank -> pid, of those that live."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            is_ours = "trainer/train.py" in words and f"{self.directory}/gpt.toml" in words
            if is_ours and not is_dead(int(entry.name)):
                found[int(words[words.index("--rank") + 1])] = int(entry.name)
        return found

    def ranks_are_gone(self, pids):
        return all(map(is_dead, pids))

    def wait_until_stopped(self, rank):
        """Where it is not, it is gone."""
        pid = self.rank_pids().get(rank)
        wait_until(lambda: pid is None or state_of(pid) in "TZX", f"the standstill of rank {rank}", 10)

    def order(self, rank, point, number):
        temporary = self.directory / "orders.tmp"
        temporary.write_text(f"{rank} {point} {int(number)}")
        temporary.rename(self.directory / "orders")

    def order_was_taken(self):
        return not (self.directory / "orders").exists()

    def take_back_order(self):
        """False where it was taken."""
        try:
            (self.directory / "orders").unlink()
            return True
        except FileNotFoundError:
            return False

    # The job.

    def keep_switching(self):
        """Begins the next run of the job where the present one switches no more."""
        if self.runs and not self.is_tuned():
            return
        if self.runs:
            self._post("/v1/jobs/switched/stop", b"")
            wait_until(lambda: (self._state() or {}).get("active") is False, "the end of a tuned job", 60)
            # The disk is as small as a few snapshots: those of runs that are over would fill it for good.
            shutil.rmtree(self.directory / "disk" / f"run{self.runs}", ignore_errors=True)
        self.runs += 1
        run = f"run{self.runs}"
        # Failures of trials are remembered by the memory limit: what was blamed for a fault may be tried again.
        environment = {"GLOO_SOCKET_IFNAME": INTERFACE} if self.network else {}
        job = job_document(self.directory, self.ranks, self.runs, (1 << 30) + self.runs, environment)
        self._post("/v1/jobs", json.dumps({"job": job, "tune": True}).encode())
        old = self.logs
        self.logs = StepLogs([self.directory / f"{run}.log.{rank}" for rank in range(self.ranks)], self.bound)
        self.logs.add_figures(old)
        self.wait_until_it_trains(2, 240)

    def is_tuned(self):
        state = self._state()
        return state is not None and state["phase"] == "training" and state["doing"] == "nothing"

    def lost(self):
        """Why the job will not go on; "" where it may."""
        state = self._state()
        if state is None or not self.runs:
            return ""
        if not state["active"] or state["doing"] == "halted":
            return f"the job is lost: {state['phase']}, {state['doing']}: {state['failure']}"
        return ""

    def launches(self):
        return (self._state() or {}).get("launch", 0)

    def wait_until_it_trains(self, steps, seconds):
        """Until every rank has logged so many further steps since all of them last did the same."""
        goal = None
        deadline = time.monotonic() + seconds
        while True:
            self.logs.read()
            lines = self.logs.last
            if self.logs.problems:
                return
            if all(lines) and len({(line["launch"], line["attempt"]) for line in lines}) == 1:
                image = lines[0]["launch"], lines[0]["attempt"]
                if goal is None or goal[0] != image:
                    goal = image, max(line["step"] for line in lines) + steps
                if min(line["step"] for line in lines) >= goal[1]:
                    return
            if self.lost():
                raise AssertionError(self.lost())
            if time.monotonic() > deadline:
                raise AssertionError(f"the job did not train again within {seconds} s: {self._state()}")
            time.sleep(0.02)

    def tails(self):
        """The ends of what everybody wrote."""
        files = sorted([*self.directory.glob("*.log"), *self.directory.glob("agent*/jobs/*/rank-*.log")])
        return "\n".join(f"--- {file.relative_to(self.directory)}\n{file.read_text(errors='replace')[-3000:]}" for file in files)

    def _state(self):
        """The coordinator's document of the job; None while there is none to be had."""
        return self._get("/v1/jobs/switched")

    def _get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=2) as reply:
                return json.load(reply)
        except (OSError, ValueError):
            return None

    def _post(self, path, body):
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", body, method="POST"), timeout=10):
            pass
