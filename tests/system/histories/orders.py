"""Two claims, judged on a history: what was acknowledged is stored exactly once, and an order is carried out or refused, never
both. Pure.
"""
import collections

from history import Operation, Violation, of_kind, operations

STORED = "acknowledged is stored exactly once"
OBEYED = "an order is carried out or refused, never both"
# What a request asks, as the audit log says it.
WORDS = {"stop": "stop the job", "freeze": "freeze the job", "unfreeze": "unfreeze the job", "approve": "approve the trial",
         "trace": "take a trace",
         "own-plan": "go back to the plan that the job began with, and keep it"}
REFUSED = {**{asks: f"refuse to {words}" for asks, words in WORDS.items()}, "submit": "refuse to take the job"}
FREEZES = {"freeze": True, "own-plan": True, "unfreeze": False}
NOT_ORDERS = ("read", "costs", "batch", "throw", "release")  # The log has none of them.
LEFT_OUT = 2  # of each range's name: it warms up


def violations(records):
    orders = [one for one in operations(records).values() if one.asked["asks"] not in NOT_ORDERS]
    log = _Log(records)
    yield from _logged_once(orders, log)
    yield from _logged_in_order(orders, log)
    yield from _jobs_stored_once(records, orders)
    yield from _costs_stored_once(records)
    yield from _never_both(orders, log)
    yield from _stops(records, orders, log)
    yield from _freezes(records, orders, log)
    yield from _own_plans(records, orders, log)
    yield from _never_forgotten(records)


class _Log:
    """The entries of the audit logs. An order's reason is its operation's id."""

    def __init__(self, records):
        entries = sorted(of_kind(records, "entry"), key=lambda entry: (entry["where"], entry["entry"]))
        self._of = collections.defaultdict(list)
        self._next = {}
        for entry in entries:
            self._of[entry["where"], entry["why"]].append(entry)
        for entry, following in zip(entries, entries[1:]):
            if entry["where"] == following["where"]:
                self._next[entry["where"], entry["entry"]] = following

    def of(self, order):
        return self._of[order.asked["where"], order.asked["id"]]

    def refusal(self, order):
        """A coordinator refuses what it refuses right behind the order."""
        for entry in self.of(order):
            following = self._next.get((entry["where"], entry["entry"]))
            if following and following["job"] == entry["job"] and following["what"] == REFUSED[order.asked["asks"]]:
                return following
        return None


def _logged_once(orders, log):
    for order in orders:
        entries = log.of(order)
        if order.outcome == "ok" and not entries:
            yield Violation(STORED, f"{order.asked['asks']} was acknowledged, and the log does not have it", order.records)
        if order.outcome == "failed" and entries:
            yield Violation(STORED, f"{order.asked['asks']} was never handed in, and the log has it", [*order.records, *entries])
        if len(entries) > 1:
            yield Violation(STORED, f"{order.asked['asks']} was ordered once, and is {len(entries)} times in the log",
                            [*order.records, *entries])


def _logged_in_order(orders, log):
    """An order that was acknowledged before another was given stands before it, too."""
    given = collections.defaultdict(list)
    for order in orders:
        if entries := log.of(order):
            given[order.asked["where"]].append((order, entries[0]))
    for of_one in given.values():
        ended, latest = sorted(of_one, key=lambda pair: pair[0].end), None
        for order, entry in sorted(of_one, key=lambda pair: pair[0].begin):
            while ended and ended[0][0].end < order.begin:
                before = ended.pop(0)
                latest = before if latest is None or before[1]["entry"] > latest[1]["entry"] else latest
            if latest is not None and latest[1]["entry"] > entry["entry"]:
                yield Violation(STORED, f"{order.asked['asks']} stands before what was acknowledged before it was ordered",
                                [*latest[0].records, latest[1], *order.records, entry])


def _jobs_stored_once(records, orders):
    rows, known = collections.defaultdict(list), collections.defaultdict(list)
    for row in of_kind(records, "row"):
        rows[row["where"], row["job"]].append(row)
    for order in orders:
        if order.asked["asks"] == "submit":
            known[order.asked["where"], order.asked["job"]].append(order)
    for job, asked in known.items():
        yield from _job_stored_once(job, asked, rows[job])


def _job_stored_once(job, asked, rows):
    begun = [order for order in asked if order.outcome == "ok" and not order.ended["was_running"]]
    runs = collections.Counter(row["run"] for row in rows)
    for order in asked:
        if order.outcome == "ok" and order.ended["run"] not in runs:
            yield Violation(STORED, f"job {job[1]} was acknowledged as run {order.ended['run']}, which is not stored",
                            [*order.records, *rows])
    for one, other in zip(begun, begun[1:]):
        if one.ended["run"] == other.ended["run"]:
            yield Violation(STORED, f"job {job[1]} was acknowledged as new twice, as one run", [*one.records, *other.records])
    most = len(begun) + sum(order.outcome == "unknown" for order in asked)
    if len(rows) > most:
        text = f"job {job[1]} was handed in {most} times at most and is stored {len(rows)} times"
        yield Violation(OBEYED if any(order.outcome == "refused" for order in asked) else STORED, text,
                        [record for order in asked for record in order.records] + rows)


def _costs_stored_once(records):
    yield from _batches_stored_once(records)
    pushed = {one.asked["name"]: one for one in operations(records).values() if one.asked["asks"] == "costs"}
    for counted in of_kind(records, "counted"):
        if counted["agent"] is None:
            continue
        shown = [*(pushed[counted["name"]].records if counted["name"] in pushed else []), counted]
        if counted["agent"] != counted["stored"]:
            yield Violation(STORED, f"ranges {counted['name']} count {counted['agent']} times at their agent and "
                            f"{counted['stored']} times in the coordinators' costs", shown)
        recorded = pushed.get(counted["name"])
        most = recorded.asked["count"] - LEFT_OUT if recorded else counted["agent"]
        if counted["agent"] > most or (counted["spared"] and recorded and recorded.outcome == "ok" and counted["agent"] != most):
            yield Violation(STORED, f"ranges {counted['name']} were recorded {most} times and count {counted['agent']} times", shown)


def _batches_stored_once(records):
    stored = {counted["name"]: counted for counted in of_kind(records, "counted") if counted["agent"] is None}
    for one in operations(records).values():
        if one.asked["asks"] != "batch" or (counted := stored.get(one.asked["name"])) is None:
            continue
        allowed = {"ok": (1,), "unknown": (0, 1)}.get(one.outcome, (0,))
        if counted["stored"] not in allowed:
            yield Violation(STORED, f"the batch of {counted['name']} is {one.outcome} and counts {counted['stored']} times",
                            [*one.records, counted])


def _never_both(orders, log):
    for order in orders:
        refusal = log.refusal(order)
        if refusal and order.outcome == "ok":
            yield Violation(OBEYED, f"{order.asked['asks']} was acknowledged, and the log says that it was refused",
                            [*order.records, *log.of(order), refusal])
        if order.outcome == "refused" and not refusal and order.ended["status"] == 409 and log.of(order):
            yield Violation(OBEYED, f"{order.asked['asks']} was refused, and the log does not say so", [*order.records, *log.of(order)])


def _run_of(order, log):
    """None where nobody says which run of the job it was about."""
    entries = log.of(order)
    return order.ended.get("run") or (entries[0]["run"] if entries else None)


def _of_runs(orders, log, asks):
    """The orders of these kinds that were taken, or may have been, by coordinator and run."""
    found = collections.defaultdict(list)
    for order in orders:
        if order.asked["asks"] in asks and (order.outcome == "ok" or order.outcome == "unknown" and log.of(order)):
            found[order.asked["where"], _run_of(order, log)].append(order)
    return found


def _stops(records, orders, log):
    """What was to be stopped is over, and nothing of it runs. Nothing else was stopped."""
    stops, alive = _of_runs(orders, log, ("stop",)), collections.defaultdict(list)
    for rank in of_kind(records, "lives"):
        alive[rank["job"]].append(rank)
    for final in of_kind(records, "final"):
        asked = stops[final["where"], final["run"]]
        obeyed = [order for order in asked if order.outcome == "ok"]
        if obeyed and final["active"]:
            yield Violation(OBEYED, f"job {final['job']} was to be stopped, and goes on", [*obeyed[-1].records, final])
        if obeyed and alive[final["job"]]:
            yield Violation(OBEYED, f"job {final['job']} was stopped, and a rank of it still runs",
                            [*obeyed[-1].records, *alive[final["job"]]])
        if final["phase"] == "stopped" and not asked:
            refused = [order for order in orders if order.asked["asks"] == "stop" and order.outcome == "refused"
                       and order.asked["job"] == final["job"]]
            yield Violation(OBEYED, f"job {final['job']} is stopped, and nobody's order to stop it was taken",
                            [*(record for order in refused for record in order.records), final])


def _freezes(records, orders, log):
    """Each look at whether a job is frozen shows the last order that was obeyed, or one that may have been at that moment."""
    given, looks, refused = _of_runs(orders, log, FREEZES), collections.defaultdict(list), collections.defaultdict(list)
    for one in operations(records).values():
        if one.outcome == "ok" and "frozen" in one.ended:
            looks[one.asked["where"], one.ended["run"]].append(one)
    for final in of_kind(records, "final"):
        looks[final["where"], final["run"]].append(Operation(final, {**final, "kind": "ok"}))
    for order in orders:
        if order.asked["asks"] in FREEZES and order.outcome == "refused":
            refused[order.asked["where"], order.asked["job"]].append(order)
    for run, of_run in looks.items():
        for look in of_run:
            yield from _look(look, given[run], refused[look.asked["where"], look.asked["job"]])


def _look(look, given, refused):
    begun = [order for order in given if order.begin < look.end and order.asked is not look.asked]
    if look.asked.get("asks") in FREEZES:  # Its own answer shows it, or one that came between.
        begun.append(look)
    surely = [order for order in begun if order.end <= look.begin]
    latest = [order for order in begun if not any(order.end < other.begin for other in surely)]
    possible = {FREEZES[order.asked["asks"]] for order in latest}
    if not surely and look.asked.get("asks") not in FREEZES:
        possible.add(False)
    shown = look.ended["frozen"]
    if shown not in possible:
        both = [order for order in refused if FREEZES[order.asked["asks"]] == shown and order.begin < look.end]
        text = "an order that was refused was carried out" if both else "an order that was acknowledged was not carried out"
        evidence = both or latest
        yield Violation(OBEYED, f"job {look.asked['job']} is {'' if shown else 'not '}frozen: {text}",
                        [record for order in evidence for record in order.records] + _own_records(look))


def _own_records(look):
    return [look.asked] if look.asked["kind"] == "final" else look.records


def _own_plans(records, orders, log):
    given = _of_runs(orders, log, ("own-plan", "unfreeze"))
    for final in of_kind(records, "final"):
        of_run = given[final["where"], final["run"]]
        wanted = [order for order in of_run if order.asked["asks"] == "own-plan" and order.outcome == "ok"]
        if not wanted or final["incumbent"] == final["initial"]:
            continue
        last = max(wanted, key=lambda order: order.end)
        if not any(order.asked["asks"] == "unfreeze" and order.end > last.begin for order in of_run):
            yield Violation(OBEYED, f"job {final['job']} was to go back to the plan that it began with, and keeps another",
                            [*last.records, final])


def _never_forgotten(records):
    """Once a job is acknowledged each look finds it, and once it is over it stays so until it is handed in again."""
    asked = collections.defaultdict(list)
    for one in operations(records).values():
        if one.asked["asks"] in ("submit", "read"):
            asked[one.asked["where"], one.asked["job"]].append(one)
    for of_job in asked.values():
        taken = [one for one in of_job if one.asked["asks"] == "submit" and one.outcome == "ok"]
        reads = [one for one in of_job if one.asked["asks"] == "read"]
        for read in reads:
            before = next((one for one in taken if one.end < read.begin), None)
            if before and read.outcome == "refused" and read.ended["status"] == 404:
                yield Violation(STORED, f"job {read.asked['job']} was acknowledged, and is not known", [*before.records, *read.records])
        over = sorted((read for read in reads if read.outcome == "ok" and not read.ended["active"]), key=lambda read: read.end)
        for read in reads:
            again = next((one for one in over if one.end < read.begin and one.ended["run"] == read.ended.get("run")), None)
            if again and read.outcome == "ok" and read.ended["active"]:
                yield Violation(STORED, f"job {read.asked['job']} was over, and goes on", [*again.records, *read.records])
