"""A history: what clients asked and were told, what was done to daemons, what ranks ran, and what is stored in the end.

It is a list of records, a JSON object a line in a file. All have `at`, in seconds of this machine's monotonic clock, and `seed`,
of the schedule that they belong to. Their kinds:

* `invoked`: a client asks (`id`, `asks`, `where`, `job`), or a producer records ranges (`name`, `count`), or an agent
  sends a batch.
* `ok`, `refused`, `failed`, `unknown`: how that ended (`id`). `failed` never reached a daemon, `unknown` may have. An answer has
  `status`, and what it says of the job.
* `fault`, `healed`: what was done, to whom.
* `told`: a rank begins a plan (`job`, `launch`, `variant`, `rank`, `pid`, `epoch`, `plan`, `step`, `incumbent`, and since when it
  `asked`). `step`: it has made one.
* In the end `entry` of an audit log, `row` of a state's jobs, `final` (what is said of a job), `lives` (a rank that still runs),
  `counted` (how often a range counts at its agent, where that keeps it, and in the coordinators' costs).
"""
import dataclasses
import json
import math
import threading
import time

ENDS = ("ok", "refused", "failed", "unknown")


class History:
    def __init__(self):
        self.records = []
        self._lock = threading.Lock()
        self._operations = 0

    def add(self, kind, seed, **facts):
        record = {"at": facts.pop("at", None) or time.monotonic(), "kind": kind, "seed": seed, **facts}
        with self._lock:
            self.records.append(record)
        return record

    def invoked(self, seed, asks, **facts):
        """The operation's id."""
        with self._lock:
            self._operations += 1
            name = f"o{seed}-{self._operations}"
        self.add("invoked", seed, id=name, asks=asks, **facts)
        return name

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            for record in sorted(self.records, key=lambda record: record["at"]):
                file.write(json.dumps(record) + "\n")


def load(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@dataclasses.dataclass(frozen=True)
class Operation:
    asked: dict  # its first record
    ended: dict  # its last one; `unknown` where there is none

    @property
    def begin(self):
        return self.asked["at"]

    @property
    def end(self):
        """What may still come at any time has no end."""
        return math.inf if self.outcome == "unknown" else self.ended["at"]

    @property
    def outcome(self):
        return self.ended["kind"]

    @property
    def records(self):
        return [self.asked, self.ended]


def operations(records):
    """By id."""
    ends = {record["id"]: record for record in records if record["kind"] in ENDS}
    return {record["id"]: Operation(record, ends.get(record["id"], {**record, "kind": "unknown"}))
            for record in records if record["kind"] == "invoked"}


def of_kind(records, kind):
    return [record for record in records if record["kind"] == kind]


@dataclasses.dataclass(frozen=True)
class Violation:
    claim: str
    text: str
    records: list  # the least of a history that shows it

    @property
    def seeds(self):
        return sorted({record["seed"] for record in self.records if record["seed"] is not None})

    def __str__(self):
        shown = "\n".join(f"  {json.dumps(record)}" for record in sorted(self.records, key=lambda record: record["at"]))
        return f"{self.claim}: {self.text} (seeds {self.seeds})\n{shown}"
