"""What idle daemons take in a minute, beside what they say of themselves."""
import dataclasses
import pathlib
import re
import time

from samples import cpu_seconds, kib_of, state_bytes

BUDGET_CPU = 0.01       # of one core
BUDGET_MEMORY_MIB = 64
CPU_TOLERANCE_S = 0.1   # the kernel counts in hundredths, and a page takes a moment
MEMORY_TOLERANCE_MIB = 1


@dataclasses.dataclass
class Idle:
    daemon: str
    kind: str
    cpu: float  # of one core
    rss_mib: float
    pss_mib: float
    disk_mib: float
    said_cpu_s: float  # less what /proc says
    said_rss_mib: float


def said(page, name):
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    assert found, f"/metrics has no {name}"
    return float(found[1])


def metrics_of(cluster, daemon):
    """(CPU seconds, resident bytes) as the daemon's page says."""
    if daemon.kind == "agent":
        page = cluster.agent_metrics(daemon)
        return said(page, "trimtab_agent_cpu_seconds_total"), said(page, "trimtab_agent_resident_bytes")
    page = cluster.request("GET", "/metrics")[1]
    return said(page, "process_cpu_seconds_total"), said(page, "process_resident_memory_bytes")


def measure(cluster, seconds):
    before = {daemon.name: (time.monotonic(), cpu_seconds(daemon.pid())) for daemon in cluster.daemons}
    time.sleep(seconds)
    rows = []
    for daemon in cluster.daemons:
        began, spent = before[daemon.name]
        cpu = (cpu_seconds(daemon.pid()) - spent) / (time.monotonic() - began)
        said_cpu, said_rss = metrics_of(cluster, daemon)
        proc = pathlib.Path(f"/proc/{daemon.pid()}")
        rss = kib_of(proc / "status", "VmRSS") / 1024
        rows.append(Idle(daemon.name, daemon.kind, cpu, rss, kib_of(proc / "smaps_rollup", "Pss") / 1024,
                         sum(state_bytes(daemon.state)) / 2**20, said_cpu - cpu_seconds(daemon.pid()), said_rss / 2**20 - rss))
    return rows


def broken(rows):
    """What breaks a budget, in words."""
    for row in rows:
        if row.kind == "agent" and row.cpu > BUDGET_CPU:
            yield f"idle {row.daemon} takes {100 * row.cpu:.2f} % of a core, more than {100 * BUDGET_CPU:.0f} %"
        if row.kind == "agent" and row.rss_mib > BUDGET_MEMORY_MIB:
            yield f"idle {row.daemon} takes {row.rss_mib:.1f} MiB, more than {BUDGET_MEMORY_MIB}"
        if abs(row.said_cpu_s) > CPU_TOLERANCE_S:
            yield f"{row.daemon} says {row.said_cpu_s:+.2f} s of CPU time beside what /proc says"
        if abs(row.said_rss_mib) > MEMORY_TOLERANCE_MIB:
            yield f"{row.daemon} says {row.said_rss_mib:+.2f} MiB beside what /proc says"
