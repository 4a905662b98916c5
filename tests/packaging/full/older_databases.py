"""Databases as the first releases left them: the tables of the first numbered steps in */sql, and some rows."""

import dataclasses
import os
import pathlib
import sqlite3
import time

from installation import ROOT

COORDINATOR = "0123456789abcdef0123456789abcdef"
FINGERPRINT = '{"device":{"cpu":"x"},"environment":{},"fabric":{},"software":{}}'
FINGERPRINT_HASH = "6eacbcea4d551e21"
STATISTICS = "1;2;2000;2000000;1000;1000;349:2"  # 1000 ns twice


@dataclasses.dataclass(frozen=True)
class OlderDatabase:
    path: str  # below /var/lib/trimtab
    application_id: int
    sql: pathlib.Path
    version: int
    rows: tuple  # statements with their values

    def newest(self):
        """The version that this release upgrades it to."""
        return len(list(self.sql.glob("0*.sql")))

    def write(self, place):
        """In the place of what is there, and its directory's owner's."""
        path = place / self.path
        for former in path.parent.glob(path.name + "*"):
            former.unlink()
        database = sqlite3.connect(path, isolation_level=None)
        for step in sorted(self.sql.glob("0*.sql"))[: self.version]:
            database.executescript(step.read_text())
        for statement, values in self.rows:
            database.execute(statement, values)
        database.execute(f"PRAGMA application_id = {self.application_id}")
        database.execute(f"PRAGMA user_version = {self.version}")
        database.execute("PRAGMA journal_mode = WAL")
        database.close()
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def versions(self, place):
        """Of the database, and of its copy from before the upgrade (None: there is no copy)."""
        path = place / self.path
        backup = path.with_name(f"{path.name}.v{self.version}.backup")
        return version_of(path), version_of(backup) if backup.exists() else None


def version_of(path):
    """Of a database that nobody has open; leaves no file beside it."""
    database = sqlite3.connect(f"file:{path}?immutable=1", uri=True)
    try:
        return database.execute("PRAGMA user_version").fetchone()[0]
    finally:
        database.close()


def message(*fields):
    """Fields of a Protobuf message, each a number and a text or message of less than 16 KiB."""
    out = b""
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        length = bytes([len(data)]) if len(data) < 128 else bytes([len(data) & 127 | 128, len(data) >> 7])
        out += bytes([number << 3 | 2]) + length + data
    return out


def cost_rows(subject):
    """A cost of which one batch is folded into a sum and a later one is not."""
    return (
        ("INSERT INTO fingerprints VALUES (?, ?)", (FINGERPRINT_HASH, FINGERPRINT)),
        ("INSERT INTO origins VALUES (1, 'an-older-agent', 1)", ()),
        ("INSERT INTO batches VALUES (1, 2)", ()),
        ("INSERT INTO cost_keys VALUES (1, 'operator_forward', ?, 'float32', 2, 1, 'default', 0, 0, '')", (subject,)),
        *(("INSERT INTO costs VALUES (?, 1, 'active', 1, ?, ?)", (FINGERPRINT_HASH, number, STATISTICS)) for number in (-1, 2)),
    )


# A batch that the older agent measured and could not send any more.
SPOOLED = message(
    (2, FINGERPRINT),
    (3, message((1, '{"kind":"operator_forward","subject":"spooled","samples":2}'), (2, STATISTICS), (3, "active"))),
    (4, "older-job"),
)
COSTS = (0x74724331, ROOT / "schema/sql", 1)
OLDER_DATABASES = (
    OlderDatabase("coordinator/costs.db", *COSTS, cost_rows("stored")),
    # The second version is the first with an audit log.
    OlderDatabase("coordinator/coordinator.db", 0x54544353, ROOT / "coordinator/sql", 2, (
        ("UPDATE identity SET coordinator = ?", (COORDINATOR,)),
        ("INSERT INTO audit (at_ns, who, what, job, run, why) VALUES (?, 'ana', 'submit', 'older-job', 0, 'before the upgrade')",
         (time.time_ns(),)),
    )),
    OlderDatabase("agent/costs.db", *COSTS, cost_rows("stored-on-the-node")),
    OlderDatabase("agent/agent.db", 0x54544147, ROOT / "agent/sql", 1, (
        ("INSERT INTO identity VALUES ('00000000000000a1', ?)", (COORDINATOR,)),
        ("INSERT INTO batches (active, bytes, payload) VALUES (1, ?, CAST(? AS TEXT))", (len(SPOOLED), SPOOLED)),
    )),
)
