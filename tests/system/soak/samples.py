"""What the daemons of a soak take, each second: memory, descriptors, threads, processor time, bytes of state, and now and then
the rows of every table. All of it also goes into a CSV file."""
import csv
import dataclasses
import os
import pathlib
import sqlite3
import threading
import time

PERIOD_S = 1.0
ROWS_EVERY = 5  # samples
TICKS = os.sysconf("SC_CLK_TCK")


@dataclasses.dataclass
class Sample:
    t: float        # seconds since the load began
    daemon: str
    life: int
    age: float      # seconds since this process began
    rss_kib: int
    pss_kib: int
    fds: int
    threads: int
    cpu_s: float
    database_bytes: int
    log_bytes: int       # of the databases: SQLite writes on in a log once it is long enough, and never cuts it
    other_bytes: int     # jobs' directories and the like


def kib_of(path, name):
    for line in path.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    return 0


def process_age(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return float(pathlib.Path("/proc/uptime").read_text().split()[0]) - int(fields[19]) / TICKS


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def state_bytes(state):
    """Of databases, of their logs, and of everything else."""
    databases = logs = others = 0
    for directory, _, files in os.walk(state):
        for file in files:
            try:
                size = os.lstat(os.path.join(directory, file)).st_size
            except OSError:
                continue
            if file.endswith(".db-wal"):
                logs += size
            elif ".db" in file and not file.endswith(".lock"):
                databases += size
            elif file != "ballast":
                others += size
    return databases, logs, others


def take(daemon, t):
    """None where no process runs."""
    pid = daemon.pid()
    try:
        proc = pathlib.Path(f"/proc/{pid}")
        databases, logs, others = state_bytes(daemon.state)
        return Sample(t, daemon.name, daemon.lives, process_age(pid), kib_of(proc / "status", "VmRSS"),
                      kib_of(proc / "smaps_rollup", "Pss"), len(os.listdir(proc / "fd")), kib_of(proc / "status", "Threads"),
                      cpu_seconds(pid), databases, logs, others)
    except (OSError, ValueError, IndexError):
        return None


def table_rows(daemon):
    """{"costs.db: batches": count}; without those that cannot be read now."""
    counts = {}
    for path in sorted(daemon.state.glob("*.db")):
        try:
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1) as connection:
                names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
                for name in names:
                    counts[f"{path.name}: {name}"] = connection.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
            connection.close()
        except sqlite3.Error:
            continue
    return counts


class Sampler:
    def __init__(self, cluster, file):
        self._cluster = cluster
        self._file = pathlib.Path(file)
        self._stopping = threading.Event()
        self._began = time.monotonic()
        self.samples = []
        self.rows = []  # (t, daemon's name, counts)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self._began = time.monotonic()
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def now(self):
        return time.monotonic() - self._began

    def _run(self):
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with open(self._file, "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow([field.name for field in dataclasses.fields(Sample)] + ["rows"])
            turn = 0
            while not self._stopping.wait(max(0.0, turn * PERIOD_S - self.now())):
                self._take_all(writer, turn % ROWS_EVERY == 0)
                turn += 1

    def _take_all(self, writer, with_rows):
        for daemon in self._cluster.daemons:
            sample = take(daemon, self.now())
            if sample is None:
                continue
            self.samples.append(sample)
            counts = table_rows(daemon) if with_rows else {}
            if counts:
                self.rows.append((sample.t, daemon.name, counts))
            writer.writerow([*dataclasses.astuple(sample), " ".join(f"{name}={count}" for name, count in counts.items())])
