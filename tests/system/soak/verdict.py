"""What must hold after a soak, and the words for what does not."""
import growth
import ledger

MEMORY_MIB = 4             # the most that memory may grow over the stretch without restarts
AGENT_MIB, COORDINATOR_MIB = 128, 256
DATABASE_RATIO = 1.25      # of the high-water mark, middle to last third
DATABASE_SLACK = 1 << 20
LOG_MIB = 6                # of each of a daemon's two databases: SQLite begins anew at 4 MiB, after the transaction that passes them
UNFOLDED = 2 * 64          # an origin's batches are folded when 64 follow on each other, at every 64th
FORGOTTEN = ("jobs", "phases", "trials", "steps", "commands", "events")
AUDIT_LEFT = 25            # what was written in the quiet time, mostly that entries were removed
HISTORY = "coordinator.db: "


class Verdict:
    def __init__(self, sampler, baseline, stretch):
        """`baseline`: samples of the idle daemons by name. `stretch`: (begin, end) of the time without restarts."""
        self._samples, self._rows = sampler.samples, sampler.rows
        self._baseline, self._stretch = baseline, stretch
        self.checks = []  # (what, how it turned out, whether it holds)

    def check(self, what, found, holds):
        self.checks.append((what, found, bool(holds)))

    def broken(self):
        return [f"{what}: {found}" for what, found, holds in self.checks if not holds]

    def memory(self, daemon):
        """(first third, last third, growth by slope, most) in MiB; None where no process settled."""
        points = [(s.t, s.rss_kib / 1024) for s in growth.settled(self._samples, daemon.name, *self._stretch)]
        if len(points) < 10:
            return None
        first, last = growth.thirds(points)
        most = max(s.rss_kib for s in self._samples if s.daemon == daemon.name) / 1024
        return first, last, growth.slope(points) * (points[-1][0] - points[0][0]), most

    def check_memory(self, daemon):
        found = self.memory(daemon)
        if found is None:
            return self.check(f"{daemon.name}: memory", "too few samples of a settled process", False)
        first, last, grown, most = found
        limit = AGENT_MIB if daemon.kind == "agent" else COORDINATOR_MIB
        self.check(f"{daemon.name}: memory grows by at most {MEMORY_MIB} MiB without restarts",
                   f"{last - first:+.1f} MiB from first to last third, {grown:+.1f} MiB by slope",
                   last - first <= MEMORY_MIB and grown <= MEMORY_MIB)
        self.check(f"{daemon.name}: never more than {limit} MiB", f"{most:.1f} MiB", most <= limit)

    def check_descriptors(self, daemon, after):
        before = self._baseline[daemon.name]
        self.check(f"{daemon.name}: descriptors and threads as at the start",
                   f"{before.fds} and {before.threads} idle, {after.fds} and {after.threads} in the end",
                   after.fds <= before.fds and after.threads <= before.threads)

    def high_water(self, daemon):
        """Database bytes: the most in the middle and in the last third of the load."""
        end = self._stretch[1]
        middle = [s.database_bytes for s in self._samples if s.daemon == daemon.name and end / 3 <= s.t < 2 * end / 3]
        last = [s.database_bytes for s in self._samples if s.daemon == daemon.name and 2 * end / 3 <= s.t <= end]
        return max(middle, default=0), max(last, default=0)

    def check_database(self, daemon):
        middle, last = self.high_water(daemon)
        self.check(f"{daemon.name}: databases stop growing", f"{middle >> 10} KiB in the middle third, {last >> 10} KiB in the last",
                   last <= DATABASE_RATIO * middle + DATABASE_SLACK)
        logs = max((s.log_bytes for s in self._samples if s.daemon == daemon.name), default=0)
        self.check(f"{daemon.name}: the databases' logs take at most {2 * LOG_MIB} MiB", f"{logs >> 10} KiB", logs <= 2 * LOG_MIB << 20)

    def check_retention(self, final_rows):
        counts = final_rows["coordinator"]
        left = {name: counts[HISTORY + name] for name in FORGOTTEN}
        # Of the coordinator itself, jobs' launches left rows in every table of them.
        most = {name: max(rows.get(HISTORY + name, 0) for _, daemon, rows in self._rows if daemon == "coordinator") for name in FORGOTTEN}
        self.check("the history of runs was there, and is forgotten in the end",
                   ", ".join(f"{name} {most[name]} → {left[name]}" for name in FORGOTTEN),
                   not any(left.values()) and all(most[name] > 0 for name in ("jobs", "events", "phases", "steps")))
        audit = counts[HISTORY + "audit"]
        self.check("the audit log keeps only what is recent", f"{audit} entries in the end", audit <= AUDIT_LEFT)

    def check_counts(self, cluster):
        for agent, keys in ledger.differences(cluster).items():
            self.check(f"{agent}: the coordinator counts what the agent measured, once", f"{len(keys)} costs differ {keys[:3]}", not keys)
        ended, counted = sum(ledger.ranges_ended(cluster).values()), sum(ledger.ranges_counted(cluster).values())
        self.check("no range counts twice, and most count", f"{counted} of {ended} ranges that ranks ended",
                   ended / 2 <= counted <= ended and ended > 0)
        left = ledger.unfolded(cluster)
        self.check(f"no origin keeps more than {UNFOLDED} batches one by one", f"{max(left.values(), default=0)} at most",
                   all(count <= UNFOLDED for count in left.values()))

    def check_logs(self, cluster):
        lines = [f"{daemon.name}: {line}" for daemon in cluster.daemons for line in daemon.log().splitlines()
                 if "assertion" in line.lower() or "terminate called" in line]
        self.check("no daemon asserted", "; ".join(lines[:3]) or "none", not lines)
