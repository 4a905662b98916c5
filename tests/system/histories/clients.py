"""Clients that ask at random, from a seed: jobs, orders, looks, ranges, kill switches. Each operation goes into the history."""
import http.client
import random
import threading
import time
import urllib.parse

from cluster import RANK_JOB

CLIENTS = 3
ASKED = {"submit": 4, "freeze": 4, "unfreeze": 4, "own-plan": 2, "stop": 1, "approve": 1, "trace": 1, "read": 5, "batch": 6, "costs": 3, "switch": 1}
SURE = ("freeze", "unfreeze", "own-plan", "read", "approve", "trace")  # of the job that trains all the time, which is stopped elsewhere
STEPS_OF_A_SMALL_JOB = 15
ENVIRONMENT = {"TRIMTAB_RANGES": "client", "LD_PRELOAD": ""}  # Ranks have the true clock: Python cannot sleep by a faked one.


def _command(word, cluster, *more):
    return ["/usr/bin/python3", str(RANK_JOB), word, "--rank", "{rank}", "--world-size", "{world_size}", "--rendezvous", "{rendezvous}",
            "--log", str(cluster.ranks_log), *more]


def small_job(cluster, name, shares):
    """One rank, a few steps, nothing to tune. One that shares no device mostly waits: orders come to both."""
    return {"schema": "trimtab.job/1", "name": name, "mode": "observe", "delivery": "live", "world_size": 1, "share_devices": shares,
            "memory_limit_bytes": 1 << 29, "steps": STEPS_OF_A_SMALL_JOB, "working_directory": "/",
            "commands": {"train": _command("train", cluster, "--steps", "{steps}")}, "environment": ENVIRONMENT}


def switched_job(cluster, name, ranks):
    """One that is tuned all the time, with trials as short as they can be."""
    return {"schema": "trimtab.job/1", "name": name, "mode": "auto", "delivery": "live", "world_size": ranks, "share_devices": True,
            "memory_limit_bytes": 1 << 29, "steps": 10**9, "working_directory": "/",
            "commands": {"describe": ["/usr/bin/python3", str(RANK_JOB), "describe"],
                         "benchmark": _command("benchmark", cluster, "--requests", "{requests}"),
                         "train": _command("train", cluster, "--plan", "{plan}", "--steps", "{steps}")},
            "environment": ENVIRONMENT, "hang_ns": 15 * 10**9, "knobs": {"sliced_microbatches": True, "data_parallel": False},
            "trials": {"warmup_steps": 0, "measure_steps": 1, "blocks": 1, "max_trials": 100000, "minimum_gain": 0.0, "overhead": 1.0,
                       "deadline_ns": 5 * 10**9},
            "crashes": {"limit": 99, "within_ns": 10**6, "within_steps": 1}}


class Caller:
    """Asks coordinators, and writes down what they said."""

    def __init__(self, cluster, history, seed):
        self._cluster, self._history, self._seed = cluster, history, seed

    def submit(self, where, document, through=True):
        return self._ask("submit", where, document["name"], "POST", "/v1/jobs", {"job": document, "tune": True}, through)

    def order(self, where, job, asks, through=True):
        body = {"steps": 1} if asks == "trace" else None
        return self._ask(asks, where, job, "POST", f"/v1/jobs/{job}/{asks}", body, through)

    def read(self, where, job, through=True):
        return self._ask("read", where, job, "GET", f"/v1/jobs/{job}", None, through)

    def _ask(self, asks, where, job, method, target, body, through):
        name = self._history.invoked(self._seed, asks, where=where, job=job)
        words = urllib.parse.urlencode({"by": "client", "why": name})
        port = self._port(where, asks, through)
        try:
            status, document = self._cluster.ask(port, method, f"{target}?{words}", body)
        except ConnectionRefusedError:  # Of the daemon's own port: a link takes every connection.
            kind, answer = "failed", {}
        except (OSError, http.client.HTTPException, ValueError) as failure:
            kind, answer = "unknown", {"why": repr(failure)}
        else:
            kind, answer = _judged(status, document)
        self._history.add(kind, self._seed, id=name, **answer)
        return kind, answer

    def _port(self, where, asks, through):
        if through:
            return self._cluster.people[where].port
        deposed = self._cluster.deposed.get(where)
        # One that was taken over still says what it knew. What it may not do is confirm anything.
        return deposed.port if deposed and asks != "read" else self._cluster.coordinators[where].port

    def record(self, producer, name, count):
        operation = self._history.invoked(self._seed, "costs", where=producer.node, job=None, name=name, count=count)
        self._history.add("ok" if producer.record(name, count) else "unknown", self._seed, id=operation)

    def send(self, wire, name, twice):
        """A batch with one range of this name."""
        operation = self._history.invoked(self._seed, "batch", where=wire.node, job=None, name=name, twice=twice)
        wire.send(name, twice, lambda why: self._history.add("refused" if why else "ok", self._seed, id=operation, status=0, why=why))

    def switch(self, node, throw):
        operation = self._history.invoked(self._seed, "throw" if throw else "release", where=node, job=None)
        file = self._cluster.directory / node / "kill-switch"
        try:
            file.touch() if throw else file.unlink(missing_ok=True)
        except OSError as failure:  # Its disk is full.
            self._history.add("failed", self._seed, id=operation, why=repr(failure))
        else:
            self._history.add("ok", self._seed, id=operation)


def _judged(status, document):
    """202 says that the order waits, and may be forgotten with the coordinator."""
    answer = {"status": status}
    if status >= 400:
        return "refused", {**answer, "why": document.get("error")}
    answer |= {key: document[key] for key in ("run", "frozen", "active", "phase", "was_running") if key in document}
    return ("unknown" if status == 202 else "ok"), answer


class Clients:
    """`switched`: by coordinator, the job that trains all the time."""

    def __init__(self, cluster, history, seed, switched):
        self._cluster, self._history, self._seed, self._switched = cluster, history, seed, switched
        self.caller = Caller(cluster, history, seed)
        self.jobs = [(where, f"h{seed}-{number}") for number, where in enumerate(sorted(cluster.coordinators) * 2)]

    def run(self, seconds):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(random.Random(f"{self._seed}/{number}"), number, end))
                   for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        return threads

    def _client(self, chance, number, end):
        count = 0
        for where, job in self.jobs[number::CLIENTS]:
            self.caller.submit(where, small_job(self._cluster, job, chance.random() < 0.3), chance.random() < 0.7)
        while time.monotonic() < end:
            count += 1
            self._one(chance, number, count)
            time.sleep(chance.uniform(0, 0.06))

    def _one(self, chance, number, count):
        asks = chance.choices(list(ASKED), list(ASKED.values()))[0]
        where, job = chance.choice(self.jobs)
        through = chance.random() < 0.7
        if asks == "costs":
            names = sorted(self._cluster.producers)
            if number < len(names):  # A producer has one client.
                producer = self._cluster.producers[names[chance.randrange(number, len(names), CLIENTS)]]
                self.caller.record(producer, f"h{self._seed}/{number}/{count}", chance.randint(4, 40))
        elif asks == "batch":
            self.caller.send(self._cluster.wire, f"h{self._seed}/wire/{number}/{count}", chance.random() < 0.3)
        elif asks == "switch":
            self.caller.switch("n0", chance.random() < 0.5)
        elif asks == "submit":
            self.caller.submit(where, small_job(self._cluster, job, chance.random() < 0.3), through)
        else:
            if asks in SURE and chance.random() < (0.7 if asks == "read" else 0.2) and where in self._switched:
                job = self._switched[where]
            (self.caller.read if asks == "read" else lambda *words: self.caller.order(words[0], words[1], asks, words[2]))(where, job, through)
