"""Two coordinators on one PostgreSQL server, or one on files, with agents behind links that can be cut, and their producers."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile

from cut_link import CutLink
from installation import BUILD, TRIMTAB, free_port, wait_until
from postgres import Postgres
from switched_job import Disk
from wire_agent import NODE, WireAgent

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))
from daemons import Daemon  # noqa: E402

INJECT = BUILD / "lib" / "libtrimtab-inject.so"
RANK_JOB = pathlib.Path(__file__).with_name("rank_job.py")
FAKETIME = pathlib.Path(os.environ.get("TRIMTAB_FAKETIME", "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"))
DISK = "64m"
SPARED = "n1"  # An agent that is never killed must account for every range that was recorded beside it.
WANDERERS = ("n3", NODE)  # They go from one coordinator to the other, and so run no jobs.


def fakes_clocks():
    return FAKETIME.exists() and not os.environ.get("TRIMTAB_SANITIZED")


class Program(Daemon):
    """A daemon whose clock can be set, and whose disk can be filled."""

    def __init__(self, name, kind, directory, arguments, disk, faked):
        super().__init__(name, kind, directory, arguments)
        self.disk, self.clock, self.removed, self._pids = None, None, set(), []
        self.state.mkdir(mode=0o700, exist_ok=True)
        if disk:
            self.disk = Disk(self.state, DISK)
        if faked and fakes_clocks():
            self.clock = directory / f"{name}.clock"
            self.set_clock(0)

    def set_clock(self, seconds):
        beside = self.clock.with_suffix(".new")
        beside.write_text(f"{seconds:+d}s\n")
        beside.rename(self.clock)

    def start(self):
        environment = dict(os.environ)
        if self.clock:
            environment |= {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_CACHE_DURATION": "1",
                            "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with self.lock, open(self.log_file, "a") as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            self.lives += 1
            self._pids.append(self.process.pid)

    def has_its_files(self):
        """Whether what was removed is there again."""
        return all(file.exists() for file in self.removed)

    def clean(self):
        if self.clock:  # What libfaketime leaves of a program that is killed.
            for pid in self._pids:
                for kind in ("faketime_shm", "sem.faketime_sem"):
                    pathlib.Path("/dev/shm", f"{kind}_{pid}").unlink(missing_ok=True)
        if self.disk:
            subprocess.run(["umount", "-l", str(self.state)], check=False)


class Producer:
    def __init__(self, cluster, agent):
        self.node = agent.name
        self._process = subprocess.Popen(
            ["/usr/bin/python3", str(RANK_JOB), "produce"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "TRIMTAB_SOCKET": str(cluster.directory / f"{agent.name}.sock"), "TRIMTAB_LIBRARY": str(INJECT)})

    def wait(self):
        assert self._process.stdout.readline() == "active\n", f"the producer at {self.node} was never active"

    def record(self, name, count):
        self._process.stdin.write(f"{name} {count}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline() == f"recorded {count}\n"

    def end(self):
        """How many ranges found no room."""
        output, _ = self._process.communicate(timeout=30)
        return int(output.split()[-1])


class Cluster:
    """`with Cluster(on_server) as cluster:`"""

    def __init__(self, on_server, disks):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-histories-"))
        self.ranks_log = self.directory / "ranks"
        self.ranks_log.mkdir()
        self.server, self._disks = None, disks
        self._closing = contextlib.ExitStack()
        self._closing.callback(self._remove)
        if on_server:
            self.server = Postgres(("costs", "c0", "c1"))
            self._closing.callback(self.server.close)
        self.coordinators, self.agents, self.links, self.people, self.deposed = {}, {}, {}, {}, {}
        self.producers, self.homes, self.wire = {}, {}, None

    # From the beginning to the end.

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            print(self.logs())
            self._closing.close()
            raise
        return self

    def _begin(self):
        for name in ("c0", "c1") if self.server else ("c0",):
            self.coordinators[name] = self.coordinator(name)
            self.people[name] = self._link(self.coordinators[name].port)
            self.coordinators[name].start()
        for number, name in enumerate(("n0", "n1", "n2", "n3") if self.server else ("n0", "n1", "n2")):
            self.homes[name] = "c1" if number > 1 and self.server else "c0"
            self.links[name] = self._link(self.coordinators[self.homes[name]].port)
            self.agents[name] = self._agent(name)
            self.agents[name].start()
        self.homes[NODE] = "c0"
        self.links[NODE] = self._link(self.coordinators["c0"].port)
        self.wire = WireAgent(self.links[NODE])
        self._closing.callback(self.wire.close)
        wait_until(self.is_whole, "the agents' joining", 30)
        self.producers = {name: Producer(self, agent) for name, agent in self.agents.items()}
        for producer in self.producers.values():
            producer.wait()

    def _link(self, port):
        link = CutLink(port)
        self._closing.callback(link.close)
        return link

    def coordinator(self, name, state=None):
        """A program that is not started yet. `state`: of its own, where another one has that name."""
        port = free_port()
        places = () if not self.server else ("--state-database", self.server.name(name), "--cost-database", self.server.name("costs"))
        daemon = self._program(state or name, "coordinator", ["--listen", f"127.0.0.1:{port}", "--state", self.directory / (state or name),
                                                              "--search-time", "300ms", "--node-timeout", "5s", *places],
                               disk=not self.server, faked=name == "c0")
        daemon.port = port
        return daemon

    def _agent(self, name):
        whose = ("--tenant", "nobody") if name in WANDERERS else ()
        return self._program(name, "agent", ["--coordinator", f"127.0.0.1:{self.links[name].port}", "--node", name, "--state",
                                             self.directory / name, "--socket", self.directory / f"{name}.sock", "--metrics-port", "0",
                                             "--memory", "1GiB", "--devices", "1", "--sample-period", "0s", "--kill-grace", "1s", *whose],
                             disk=name != SPARED, faked=name == "n0")

    def _program(self, name, kind, arguments, disk, faked):
        daemon = Program(name, kind, self.directory, arguments, disk and self._disks, faked)
        self._closing.callback(daemon.clean)
        self._closing.callback(self._end, daemon)
        return daemon

    @staticmethod
    def _end(daemon):
        if daemon.pid():
            daemon.process.kill()
            daemon.process.wait()

    def __exit__(self, kind, value, trace):
        for producer in self.producers.values():
            producer.end()
        for daemon in (*self.coordinators.values(), *self.agents.values()):
            self._end(daemon)
        for pid in self.rank_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._closing.close()

    def _remove(self):
        if os.environ.get("TRIMTAB_KEEP"):
            print(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    # What is asked of it.

    def ask(self, port, method, target, body=None, timeout=2.0):
        """Status and document. Raises ConnectionRefusedError where nobody listens, and others where no answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        try:
            connection.request(method, target, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def is_whole(self):
        """Whether every agent is connected with its coordinator."""
        for name, coordinator in self.coordinators.items():
            try:
                status, document = self.ask(coordinator.port, "GET", "/v1/nodes")
            except (OSError, http.client.HTTPException, ValueError):
                return False
            there = {node["name"] for node in document.get("nodes", ()) if node["state"] == "connected"}
            if status != 200 or not {node for node, home in self.homes.items() if home == name} <= there:
                return False
        return True

    def rank_pids(self):
        """Of the processes that agents have started, and that live: their jobs."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
                if b"train" in words and str(self.ranks_log).encode() in words:
                    variables = (entry / "environ").read_bytes().split(b"\0")
                    found[int(entry.name)] = next(one[12:].decode() for one in variables if one.startswith(b"TRIMTAB_JOB="))
            except (OSError, StopIteration):
                continue
        return found

    def jobs_stored(self):
        """(coordinator, name, run) of all jobs in the states."""
        if self.server:
            rows = [(name, *row) for name in self.coordinators
                    for row in self.server.query(f"SELECT convert_from(name, 'UTF8'), run FROM {name}.jobs")]
        else:
            with contextlib.closing(sqlite3.connect(f"file:{self.directory}/c0/coordinator.db?mode=ro", uri=True, timeout=10)) as opened:
                rows = [("c0", *row) for row in opened.execute("SELECT name, run FROM jobs")]
        return [(where, name, int(run)) for where, name, run in rows]

    def spooled(self):
        """Batches that agents have and no coordinator has acknowledged."""
        return sum(self._count(name) for name in self.agents)

    def _count(self, name):
        with contextlib.closing(sqlite3.connect(f"file:{self.directory}/{name}/agent.db?mode=ro", uri=True, timeout=10)) as opened:
            return opened.execute("SELECT COUNT(*) FROM batches").fetchone()[0]

    def ranges_counted(self, *databases):
        """{range's name: how often it counts} in databases that are merged."""
        merged = self.directory / f"merged-{free_port()}.db"
        self._verb("db", "merge", merged, *databases)
        costs = json.loads(self._verb("db", "export", merged, "--to", "json", "--names"))["costs"]
        counts = {}
        for row in costs:
            if row["cost"]["kind"] == "range":
                counts[row["cost"]["subject"]] = counts.get(row["cost"]["subject"], 0) + row["count"]
        return counts

    def costs_database(self):
        return self.server.name("costs") if self.server else self.directory / "c0" / "costs.db"

    @staticmethod
    def _verb(*words):
        done = subprocess.run([str(TRIMTAB), *map(str, words)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"{words} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def logs(self):
        return "\n".join(f"--- {file.name}\n{file.read_text(errors='replace')[-3000:]}" for file in sorted(self.directory.glob("*.log")))
