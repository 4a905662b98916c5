"""What was counted where, read from the databases themselves: whether something was lost on its way or counts twice."""
import json
import sqlite3

KEY = "kind, subject, dtype, samples, tp, sharding, bytes, group_size, placement, algorithm, protocol, channels, kernel_class"
FOLDED = "SELECT c.cost_key, c.source, c.fingerprint, c.statistics FROM costs c JOIN origins o ON o.id = c.origin WHERE o.name = ?"
SINGLE = "SELECT b.source, b.fingerprint, b.costs FROM batches b JOIN origins o ON o.id = b.origin WHERE o.name = ?"


def _open(path):
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)


def instance_of(agent):
    connection = _open(agent.state / "agent.db")
    try:
        return connection.execute("SELECT instance FROM identity").fetchone()[0]
    finally:
        connection.close()


def values_by_key(database, origin):
    """{key: (values, their sum)} of all batches of an origin."""
    connection = _open(database)
    try:
        connection.execute("BEGIN")  # All of one moment.
        keys = {row[0]: row[1:] for row in connection.execute(f"SELECT id, {KEY} FROM cost_keys")}
        rows = connection.execute(FOLDED, (origin,)).fetchall()
        for source, fingerprint, costs in connection.execute(SINGLE, (origin,)):
            for line in costs.splitlines():
                key, statistics = line.split(" ", 1)
                rows.append((int(key), source, fingerprint, statistics))
    finally:
        connection.close()
    sums = {}
    for key, source, fingerprint, statistics in rows:
        _, count, total, *_ = statistics.split(";")
        name = (*keys[key], source, fingerprint)
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + int(count), before[1] + int(total))
    return sums


def differences(cluster):
    """For each agent, keys that the coordinator counts in another way than the agent itself."""
    found = {}
    for agent in cluster.agents:
        origin = instance_of(agent)
        own = values_by_key(agent.state / "costs.db", origin)
        merged = values_by_key(cluster.coordinator.state / "costs.db", origin)
        found[agent.name] = [key[:2] for key in own.keys() | merged.keys() if own.get(key) != merged.get(key)]
    return found


def unfolded(cluster):
    """Of each origin in the coordinator's costs: batches that are stored one by one."""
    connection = _open(cluster.coordinator.state / "costs.db")
    try:
        return dict(connection.execute("SELECT o.name, COUNT(b.number) FROM origins o LEFT JOIN batches b ON b.origin = o.id GROUP BY o.name"))
    finally:
        connection.close()


def ranges_ended(cluster):
    """By name, as the ranks wrote it down."""
    counts = {}
    for file in cluster.counts.glob("*.json"):
        for name, count in json.loads(file.read_text()).items():
            counts[name] = counts.get(name, 0) + count
    return counts


def ranges_counted(cluster):
    """By name, as the coordinator has them."""
    counts = {}
    for agent in cluster.agents:
        for key, (count, _) in values_by_key(cluster.coordinator.state / "costs.db", instance_of(agent)).items():
            if key[0] == "range":
                counts[key[1]] = counts.get(key[1], 0) + count
    return counts
