"""Histories of real daemons under faults, and whether they keep what is promised. Run it as root: full disks need a tmpfs.

    /usr/bin/python3 histories.py --histories 1000
    /usr/bin/python3 histories.py --first 41 --histories 1 --store files   # again: one that failed

A history is half a second of clients that ask at random and of faults, both drawn from its seed. Daemons are started anew after
LIFETIME of them. Then all is healed, what is stored is read, and orders.py and plans.py judge the whole. A violation prints the
seed and the records that show it, and the history is kept as JSON lines.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import orders  # noqa: E402
import plans  # noqa: E402
import postgres  # noqa: E402
from clients import Caller, Clients, switched_job  # noqa: E402
from cluster import SPARED, Cluster, fakes_clocks  # noqa: E402
from faulted_switches import in_mount_namespace  # noqa: E402
from history import History  # noqa: E402
from history import operations as operations_of  # noqa: E402
from installation import wait_until  # noqa: E402
from mishaps import Mishaps  # noqa: E402

SECONDS = 0.5  # of a history's faults
LIFETIME = 25
FLUSH_S = 2.2  # An agent's period, in which it stores what it has folded.
SETTLED_S = 60
EXPECTED_ENDS = (3, -signal.SIGKILL)
RANKS = {"c0": 2, "c1": 1}  # of the job that trains all the time


class Lifetime:
    """Some histories of one cluster."""

    def __init__(self, on_server, seeds):
        self._on_server, self._seeds = on_server, seeds
        self.history, self.faults, self._begun = History(), collections.Counter(), []
        self._switched, self._numbers = {}, collections.Counter()
        self._cluster = None

    def run(self):
        """Violations."""
        with Cluster(self._on_server, bool(os.environ.get("TRIMTAB_TEST_MOUNTS"))) as self._cluster:
            try:
                self._keep_switching(self._seeds[0])
                wait_until(self._trains, "the first steps of the jobs that train all the time", SETTLED_S)
                for seed in self._seeds:
                    self._one(seed)
                self._settle()
            except AssertionError:
                print(self._cluster.logs(), flush=True)
                raise
            self._read()
        return [*orders.violations(self.history.records), *plans.violations(self.history.records)]

    def _one(self, seed):
        self._begun.append((time.monotonic(), seed))
        self._keep_switching(seed)
        clients = Clients(self._cluster, self.history, seed, self._switched)
        mishaps = Mishaps(self._cluster, self.history, seed)
        threads = clients.run(SECONDS)
        self.faults.update(mishaps.run(SECONDS))
        for thread in threads:
            thread.join()
        clients.caller.switch("n0", False)
        wait_until(self._answers, f"answers of healed coordinators (seed {seed})", SETTLED_S)
        for where, job in clients.jobs:
            clients.caller.order(where, job, "stop")

    def _trains(self):
        return all(any(self._cluster.ranks_log.glob(f"{job}-*")) for job in self._switched.values())

    def _answers(self):
        self._start_again()
        for coordinator in self._cluster.coordinators.values():
            try:
                if self._cluster.ask(coordinator.port, "GET", "/v1/status")[0] != 200:
                    return False
            except (OSError, http.client.HTTPException, ValueError):
                return False
        return True

    def _start_again(self):
        """As systemd does with what finds no database: so ends a coordinator that is started while the server is away."""
        for daemon in (*self._cluster.coordinators.values(), *self._cluster.agents.values()):
            if daemon.pid() is None:
                code = daemon.process.wait()
                assert code in EXPECTED_ENDS, f"{daemon.name} ended with {code}:\n{daemon.log()[-3000:]}"
                daemon.start()

    def _keep_switching(self, seed):
        """A job that is tuned to its end changes no plan any more: another one takes its place."""
        caller = Caller(self._cluster, self.history, seed)
        for where in self._cluster.coordinators:
            job = self._switched.get(where)
            if job is not None:
                outcome, answer = caller.read(where, job, through=False)
                if outcome != "ok" or answer["active"] and answer["phase"] != "training":
                    caller.order(where, job, "unfreeze", through=False)
                    continue
                caller.order(where, job, "stop", through=False)
            self._numbers[where] += 1
            name = f"long-{where}-{self._seeds[0]}-{self._numbers[where]}"
            if caller.submit(where, switched_job(self._cluster, name, RANKS[where]), through=False)[0] == "ok":
                self._switched[where] = name

    # The end.

    def _settle(self):
        cluster = self._cluster
        for link in cluster.links.values():  # What was not acknowledged is sent again at once, and not after half a minute.
            link.cut(0)
        wait_until(cluster.is_whole, "every agent's connection", SETTLED_S)
        for producer in cluster.producers.values():
            dropped = producer.end()
            assert dropped == 0, f"{dropped} ranges found no room in their ring at {producer.node}"
        cluster.producers = {}
        self._stop_all()
        wait_until(cluster.wire.is_idle, "the acknowledgement of all batches", SETTLED_S)
        deadline, calm = time.monotonic() + SETTLED_S, 0
        while calm < 2 and time.monotonic() < deadline:  # What is in memory at one flush is in the spool after the next.
            time.sleep(FLUSH_S)
            calm = calm + 1 if cluster.spooled() == 0 else 0
        assert calm == 2, "costs are still in agents' spools"
        daemons = [*cluster.coordinators.values(), *cluster.agents.values()]
        wait_until(lambda: all(daemon.has_its_files() for daemon in daemons), "the writing back of removed files", SETTLED_S)

    def _stop_all(self):
        """What was to be stopped and goes on is for the judge to say."""
        caller, stopped, deadline = Caller(self._cluster, self.history, self._seeds[-1]), set(), time.monotonic() + SETTLED_S
        while (active := [(job["where"], job["name"]) for job in self._jobs() if job["active"]]) and time.monotonic() < deadline:
            for where, job in active:
                if (where, job) not in stopped and caller.order(where, job, "stop", through=False)[0] == "ok":
                    stopped.add((where, job))
            time.sleep(0.1)

    def _jobs(self):
        """Of all coordinators, each with `where`."""
        found = []
        for where, coordinator in self._cluster.coordinators.items():
            status, document = self._cluster.ask(coordinator.port, "GET", "/v1/jobs", timeout=20)
            assert status == 200, document
            found += [{"where": where, **job} for job in document["jobs"]]
        return found

    def _read(self):
        for where, coordinator in self._cluster.coordinators.items():
            self._read_log(where, coordinator.port)
        for job in self._jobs():
            where, name = job["where"], job["name"]
            document = self._cluster.ask(self._cluster.coordinators[where].port, "GET", f"/v1/jobs/{name}", timeout=20)[1]
            self.history.add("final", None, where=where, job=name, incumbent=document["incumbent"]["hash"],
                             initial=document["initial"]["hash"], **{key: document[key] for key in ("run", "phase", "active", "frozen")})
        for where, name, run in self._cluster.jobs_stored():
            self.history.add("row", None, where=where, job=name, run=run)
        for pid, job in self._cluster.rank_pids().items():
            self.history.add("lives", None, job=job, pid=pid)
        self._read_ranks()
        self._read_costs()

    def _read_log(self, where, port):
        after = 0
        while True:
            status, document = self._cluster.ask(port, "GET", f"/v1/audit?after={after}", timeout=20)
            assert status == 200, document
            if not document["entries"]:
                return
            for entry in document["entries"]:
                facts = {key: entry.get(key) for key in ("entry", "who", "what", "job", "run", "why")}
                self.history.add("entry", None, where=where, **facts)
            after = document["entries"][-1]["entry"]

    def _read_ranks(self):
        for file in self._cluster.ranks_log.iterdir():
            for line in file.read_text().split("\n")[:-1]:  # The last may be half of one.
                record = json.loads(line)
                seed = max((one for one in self._begun if one[0] <= record["at"]), default=self._begun[0])[1]
                self.history.records.append({**record, "seed": seed})

    def _read_costs(self):
        cluster = self._cluster
        stored = cluster.ranges_counted(cluster.costs_database())
        for record in self.history.records[:]:
            if record.get("asks") == "batch":
                self.history.add("counted", record["seed"], name=record["name"], agent=None, stored=stored.get(record["name"], 0))
        own = {agent: cluster.ranges_counted(cluster.directory / agent / "costs.db") for agent in cluster.agents}
        pushed = [record for record in self.history.records if record.get("asks") == "costs"]
        for record in pushed:
            name, node = record["name"], record["where"]
            self.history.add("counted", record["seed"], name=name, agent=own[node].get(name, 0), stored=stored.get(name, 0),
                             spared=node == SPARED)


def run_part(options):
    """In a process of its own: lifetimes on one store. The last line of its output has the figures."""
    seeds = range(options.first, options.first + options.histories)
    operations, faults, begun, broken = collections.Counter(), collections.Counter(), time.monotonic(), 0
    changes = 0
    for at in range(0, len(seeds), LIFETIME):
        lifetime = Lifetime(options.store == "postgresql", seeds[at : at + LIFETIME])
        found = lifetime.run()
        records = lifetime.history.records
        operations.update(f"{one.asked['asks']}: {one.outcome}" for one in operations_of(records).values())
        faults.update(lifetime.faults)
        changes += sum(record["kind"] == "told" and record["asked"] is not None for record in records)
        if found or options.keep:
            kept = options.out / f"history-{options.store}-{seeds[at]}.jsonl"
            lifetime.history.save(kept)
            print(f"{len(found)} violations; the history is in {kept}", flush=True)
        for violation in found[:20]:
            print(f"{options.store}: {violation}\nagain: histories.py --store {options.store} --first {seeds[at]} --histories "
                  f"{len(seeds[at : at + LIFETIME])}", flush=True)
        broken += len(found)
    print(json.dumps({"store": options.store, "histories": len(seeds), "operations": operations, "faults": faults, "changes": changes,
                      "violations": broken, "seconds": round(time.monotonic() - begun, 1)}), flush=True)
    return 1 if broken else 0


def part(options, store, first, histories):
    """The figures of one store's histories; None where it broke down. What it says is passed on as it comes."""
    words = [sys.executable, __file__, "--store", store, "--first", str(first), "--histories", str(histories), "--out", str(options.out), "--part"]
    last = ""
    with subprocess.Popen([*words, *(["--keep"] if options.keep else [])], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if last:
                print(last, end="", flush=True)
            last = line
    try:
        return json.loads(last)
    except ValueError:
        print(last, end="", flush=True)
        return None


def table(parts, seconds):
    rows = ["| store | histories | operations | faults | changes of plan | violations | s |", "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    rows += [f"| {one['store']} | {one['histories']} | {sum(one['operations'].values())} | {sum(one['faults'].values())} | {one['changes']} | "
             f"{one['violations']} | {one['seconds']:.0f} |" for one in parts]
    for what in ("operations", "faults"):
        counts = sum((collections.Counter(one[what]) for one in parts), collections.Counter())
        rows += ["", f"| {what} | how many |", "| --- | ---: |", *(f"| {name} | {count} |" for name, count in sorted(counts.items()))]
    return "\n".join([*rows, "", f"{sum(one['histories'] for one in parts)} histories in {seconds:.0f} s."])


def shares(options):
    """(store, first seed, histories). Both at once: they mostly wait."""
    stores = [options.store] if options.store else ["postgresql", "files"]
    if "postgresql" in stores and postgres.programs() is None:
        print("PostgreSQL: skipped, it is not installed (Debian: postgresql)", flush=True)
        stores = [store for store in stores if store == "files"]
    most = options.histories * 3 // 5 if len(stores) == 2 else options.histories
    counts = [most, options.histories - most]
    return [(store, options.first + at * most, count) for at, (store, count) in enumerate(zip(stores, counts)) if count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=20)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--store", choices=("postgresql", "files"))
    parser.add_argument("--out", type=pathlib.Path, help="a folder for histories")
    parser.add_argument("--keep", action="store_true", help="keep those without violations, too")
    parser.add_argument("--part", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out = options.out or pathlib.Path(tempfile.mkdtemp(prefix="trimtab-history-"))
    options.out.mkdir(exist_ok=True, parents=True)
    if options.part:
        return run_part(options)
    in_mount_namespace(sys.argv)
    if not os.environ.get("TRIMTAB_TEST_MOUNTS"):
        print("no mount namespace: no full disks", flush=True)
    if not fakes_clocks():
        print("libfaketime is not installed, or programs have a sanitizer, which does not bear it: no clock jumps", flush=True)
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = [*pool.map(lambda share: part(options, *share), shares(options))]
    done = [one for one in parts if one]
    print(table(done, time.monotonic() - begun), flush=True)
    with contextlib.suppress(OSError):  # It has histories.
        options.out.rmdir()
    return 1 if len(done) < len(parts) or any(one["violations"] for one in done) else 0


if __name__ == "__main__":
    sys.exit(main())
