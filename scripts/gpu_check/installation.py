"""Trimtab on this machine for the length of the check: what was built here beside what was carried, and its daemons."""
import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.request

from . import child, machine
from .sections import Failed

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("trimtab", "trimtab-agent", "trimtab-coordinator")
LIBRARY = "libtrimtab-inject.so"


class Installation:
    """`folder`/bin and `folder`/lib, as an agent expects them; `folder`/state for the daemons."""

    def __init__(self, folder, carried, build):
        self.folder, self._carried, self._build = pathlib.Path(folder), pathlib.Path(carried), pathlib.Path(build)
        self.library = self.folder / "lib" / LIBRARY
        self.bench = self.folder / "bin" / "trimtab-gpu-bench"

    def program(self, name):
        return self.folder / "bin" / name

    def build(self, budget):
        """Compiles the injected parts and the GPU benchmarks, and puts all programs in place."""
        child.run(["cmake", "--preset", "gpu-check"], budget, directory=ROOT)
        child.run(["cmake", "--build", "--preset", "gpu-check"], budget, directory=ROOT)
        return self.assemble()

    def assemble(self):
        """Copies, for a program looks for its library beside where it really is."""
        missing = [name for name in PROGRAMS if not (self._carried / name).exists()]
        if missing:
            raise Failed(f"{self._carried} lacks {', '.join(missing)}: build the preset portable where Debian's packages "
                         "are, and bring its bin folder (--programs)")
        if not (self._build / "bin" / self.bench.name).exists():
            raise Failed(f"{self._build}/bin has no {self.bench.name}: the configure step found no nvcc")
        shutil.copytree(self._build / "lib", self.folder / "lib", symlinks=True, dirs_exist_ok=True)
        (self.folder / "bin").mkdir(exist_ok=True)
        for source in [self._build / "bin" / self.bench.name, *(self._carried / name for name in PROGRAMS)]:
            shutil.copy2(source, self.folder / "bin")
        return {"libraries": sorted(path.name for path in (self.folder / "lib").iterdir()),
                "libcupti": str(machine.libcupti() or "not found here: the loader's, or /usr/local/cuda's")}

    def bench_environment(self, added):
        """What an arm adds, for a program that does not bring libcupti along as PyTorch does."""
        found = machine.libcupti() if "CUDA_INJECTION64_PATH" in added else None
        return {**added, "TRIMTAB_CUPTI_LIBRARY": str(found)} if found else added

    def doctor(self):
        """What trimtab doctor says of this machine; the reason where it cannot say anything."""
        done = subprocess.run([str(self.program("trimtab")), "doctor", "--json", "--state", str(self.folder / "state")],
                              capture_output=True, text=True, timeout=30, check=False)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"error": (done.stderr or done.stdout).strip()[-600:]}

    def keep_logs(self, out):
        """The daemons' logs beside the results: a failed section is explained there."""
        for log in (self.folder / "state").glob("*.log"):
            shutil.copy2(log, out)

    @contextlib.contextmanager
    def daemons(self):
        """A coordinator and an agent that take rings; gives a Daemons."""
        state = self.folder / "state"
        state.mkdir(exist_ok=True)
        with contextlib.ExitStack() as started:
            port_file = state / "coordinator.port"
            port_file.unlink(missing_ok=True)
            self._start(started, "trimtab-coordinator", "--listen", "127.0.0.1:0", "--state", state / "coordinator",
                        "--port-file", port_file)
            port = _wait_for(lambda: port_file.exists() and port_file.read_text().strip(), "the coordinator")
            metrics = free_port()
            ring_socket = state / "agent.sock"
            self._start(started, "trimtab-agent", "--coordinator", f"127.0.0.1:{port}", "--state", state / "agent",
                        "--node", "gpu-check", "--socket", ring_socket, "--devices", "1", "--metrics-port", metrics,
                        "--run-as-root")
            daemons = Daemons(ring_socket, metrics)
            _wait_for(daemons.ready, "the agent")
            yield daemons

    def _start(self, started, name, *words):
        log = started.enter_context(open(self.folder / "state" / f"{name}.log", "w", encoding="utf-8"))
        process = subprocess.Popen([str(word) for word in (self.program(name), *words)], stdin=subprocess.DEVNULL,
                                   stdout=log, stderr=log, start_new_session=True)
        started.callback(child.end, process)


class Daemons:
    def __init__(self, ring_socket, metrics_port):
        self.socket, self._port = ring_socket, metrics_port

    def ready(self):
        with contextlib.suppress(OSError):
            return self.socket.exists() and self.metrics()
        return False

    def metrics(self):
        """{name: sum over labels} of the agent's metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
            return sums(answer.read().decode())

    def settled(self, budget, quiet_s=2.5):
        """The metrics once no record has arrived for a while: what a process left in its ring has been read."""
        before, since = None, time.monotonic()
        while not budget.spent():
            now = self.metrics()
            if before is None or now.get("trimtab_agent_records_total") != before.get("trimtab_agent_records_total"):
                before, since = now, time.monotonic()
            elif time.monotonic() - since >= quiet_s:
                return now
            time.sleep(0.1)
        raise Failed("the agent still reads records at the end of the budget")


def sums(text):
    """The values of a Prometheus page, summed over labels."""
    totals = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if line.startswith("#") or not name:
            continue
        name = name.split("{", 1)[0]
        totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def grown(before, after, name):
    """By how much a counter grew; raises Failed where the agent does not have it."""
    if name not in after:
        raise Failed(f"the agent has no metric {name}")
    return round(after[name] - before.get(name, 0.0))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _wait_for(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise Failed(f"{what} did not come up within {seconds} s")
