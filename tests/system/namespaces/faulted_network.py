"""Real daemons on nodes of their own, whose links and processes fail as a seed says; then everything heals, and every cost
that an agent has spooled must be at the coordinator exactly once.

Usage: faulted_network.py [--seed N | --runs N [--first-seed N]] [--seconds S] [--agents N] [--out FILE]
  --seed N   the run of this seed alone: the same faults at the same times
  --runs N   so many, from --first-seed (default 1) on; the first failure ends with code 1 and its seed
  --out FILE a table of the runs, in Markdown
"""
import argparse
import contextlib
import json
import pathlib
import re
import signal
import sqlite3
import sys
import time

from fault_schedule import COORDINATOR, schedule
from networked_cluster import NetworkedCluster, wait_until
from node_network import missing

SPARED = "n0"
DRAIN_SECONDS = 150
MOST_MEMORY_MIB, MOST_DESCRIPTORS = 400, 256
CRASH = re.compile(r"assert|terminate called|Segmentation|what\(\):|core dumped|std::", re.IGNORECASE)


class Run:
    def __init__(self, seed, agents, seconds, say):
        self.seed, self.seconds, self.say = seed, seconds, say
        self.cluster = NetworkedCluster(agents, seed)
        self.faults = schedule(seed, self.cluster.names, seconds, SPARED)
        self.endings = []  # (when, what ends a fault)
        self.frozen, self.down = set(), set()
        self.moves = 0

    def go(self):
        with self.cluster as cluster:
            cluster.wait_for_all()
            for name in cluster.names:
                cluster.produce(name)
            for name in cluster.names:
                assert cluster.producers[name].stdout.readline() == "active\n", f"the producer at {name} does not record"
            try:
                self.suffer()
                return self.settle()
            except (AssertionError, OSError) as failure:
                raise AssertionError(f"{failure}\n{cluster.logs()}") from failure

    def suffer(self):
        begin = time.monotonic()
        for fault in self.faults:
            self.wait(begin + fault.at)
            self.say(str(fault))
            self.commit(fault)
        self.wait(begin + self.seconds)
        for _, heal in sorted(self.endings, key=lambda ending: ending[0]):
            heal()

    def wait(self, until):
        while (now := time.monotonic()) < until:
            for ending in [ending for ending in self.endings if ending[0] <= now]:
                self.endings.remove(ending)
                ending[1]()
            for node in self.cluster.nodes.values():
                if node.name not in self.down:
                    node.meter()
            time.sleep(min(0.1, until - now))

    def later(self, seconds, heal):
        self.endings.append((time.monotonic() + seconds, heal))

    def commit(self, fault):
        node = self.cluster.nodes[fault.node]
        if fault.kind == "kill":
            self.kill(fault)
        elif fault.kind == "freeze":
            self.freeze(fault)
        elif fault.kind == "link down":
            node.namespace.ip("link", "set", "eth0", "down")
            self.later(fault.lasts, lambda: node.namespace.ip("link", "set", "eth0", "up"))
        elif fault.kind == "no address":
            self.take_address(fault, node)
        elif fault.kind == "move":
            self.move(node)
        elif fault.kind == "burst":
            producer = self.cluster.producers[fault.node]
            producer.stdin.write(f"names {fault.amount}\n")
            producer.stdin.flush()
        else:
            self.disturb(fault, node)

    def kill(self, fault):
        if fault.node in self.down | self.frozen:
            return
        self.cluster.kill(fault.node)
        self.down.add(fault.node)

        def restart():
            self.cluster.start(fault.node)
            self.down.discard(fault.node)
        self.later(fault.lasts, restart)

    def freeze(self, fault):
        if fault.node in self.down | self.frozen:
            return
        process = self.cluster.nodes[fault.node].process
        process.send_signal(signal.SIGSTOP)
        self.frozen.add(fault.node)

        def go_on():
            process.send_signal(signal.SIGCONT)
            self.frozen.discard(fault.node)
        self.later(fault.lasts, go_on)

    def take_address(self, fault, node):
        node.namespace.ip("address", "flush", "dev", "eth0")
        self.later(fault.lasts, lambda: node.namespace.ip("address", "replace", f"{node.address}/24", "dev", "eth0"))

    def move(self, node):
        """The coordinator's machine gets another address; what stood to the old one is answered by nobody."""
        self.moves += 1
        node.address = f"10.77.0.{100 + self.moves}"
        node.namespace.ip("address", "flush", "dev", "eth0")
        node.namespace.ip("address", "add", f"{node.address}/24", "dev", "eth0")
        self.cluster.place_coordinator(node.address)

    def disturb(self, fault, node):
        conditions = (fault.up, fault.down)
        node.conditions.append(conditions)
        node.apply()

        def calm():
            node.conditions.remove(conditions)
            node.apply()
        self.later(fault.lasts, calm)

    def settle(self):
        """Everything is whole again: all that was spooled drains, and the books are compared."""
        cluster, healed = self.cluster, time.monotonic()
        self.heal_addresses()
        cluster.wait_for_all(60)
        back = time.monotonic() - healed
        told = cluster.stop_producers()
        wait_until(self.drained, "the draining of every spool", DRAIN_SECONDS)
        drained = time.monotonic() - healed
        for node in cluster.nodes.values():
            node.meter()
        cluster.stop()
        batches = self.check_books(told)
        self.check_bounds()
        return {"seed": self.seed, "faults": len(self.faults), "back_s": round(back, 1), "drained_s": round(drained, 1),
                "batches": batches, "costs": sum(one["pushed"] for one in told.values()),
                "memory_mib": max(node.most_memory for node in cluster.nodes.values()),
                "descriptors": max(node.most_descriptors for node in cluster.nodes.values())}

    def heal_addresses(self):
        for node in self.cluster.nodes.values():
            node.namespace.ip("link", "set", "eth0", "up")
            node.namespace.ip("address", "replace", f"{node.address}/24", "dev", "eth0")

    def drained(self):
        """Rings read to their ends, costs flushed after that, and nothing left in any spool."""
        def empty():
            return all(self.cluster.nodes[name].metric("rings") == 0 and self.spooled(name) == 0 for name in self.cluster.names)
        if not empty():
            return False
        time.sleep(4.5)  # two periods in which agents flush
        return empty()

    def spooled(self, name):
        return self.cluster.nodes[name].query("agent.db", "SELECT COUNT(*) FROM batches")[0][0]

    def check_books(self, told):
        cluster = self.cluster
        coordinator = cluster.nodes[COORDINATOR].state / "costs.db"
        theirs = cluster.costs(*(cluster.nodes[name].state / "costs.db" for name in cluster.names))
        if cluster.costs(coordinator) != theirs:
            raise AssertionError(f"the coordinator's costs are not what the agents have measured: {cluster.directory}")
        numbers = {name: self.check_numbers(name, coordinator) for name in cluster.names}
        counted = sum(row["count"] for row in json.loads(theirs)["costs"] if row["cost"]["subject"].startswith(f"{SPARED}/"))
        if told[SPARED]["dropped"] or counted != told[SPARED]["counted"]:
            raise AssertionError(f"the producer at {SPARED} recorded {told[SPARED]}, but {counted} ranges were counted")
        return sum(numbers.values())

    def check_numbers(self, name, coordinator):
        """Every number that an agent has given to a batch is at the coordinator; how many there are."""
        node = self.cluster.nodes[name]
        instance = node.query("agent.db", "SELECT instance FROM identity")[0][0]
        given = node.query("agent.db", "SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'batches'")[0][0]
        with contextlib.closing(sqlite3.connect(f"file:{coordinator}?mode=ro", uri=True)) as opened:
            origin, folded = opened.execute("SELECT id, folded FROM origins WHERE name = ?", (instance,)).fetchone()
            numbers = {number for (number,) in opened.execute("SELECT number FROM batches WHERE origin = ?", (origin,))}
        if numbers | set(range(1, folded + 1)) != set(range(1, given + 1)):
            raise AssertionError(f"{name} numbered {given} batches, but the coordinator has 1 to {folded} and {sorted(numbers)}")
        return given

    def check_bounds(self):
        for node in self.cluster.nodes.values():
            if node.most_memory > MOST_MEMORY_MIB or node.most_descriptors > MOST_DESCRIPTORS:
                raise AssertionError(f"{node.name} took {node.most_memory} MiB and {node.most_descriptors} descriptors")
            if crash := CRASH.search(node.log.read_text()):
                raise AssertionError(f"{node.name} says '{crash.group()}':\n{node.log.read_text()[-3000:]}")


COLUMNS = {"seed": "seed", "faults": "faults", "back_s": "all back after, s", "drained_s": "all drained after, s",
           "batches": "batches", "costs": "ranges recorded", "memory_mib": "most memory, MiB", "descriptors": "most descriptors"}


HEAD = """# Real daemons behind bad links

Made by `tests/system/namespaces/{command}`. A coordinator and {agents} agents in network namespaces of their
own, {seconds:g} s of faults a run: links cut, slow, lossy, delayed, disordered and doubling, addresses that move or go, daemons killed
and frozen, bursts of costs, several at a time. Then all faults end. In every run all agents came back, every spool was drained, the
coordinator had every cost that an agent had spooled once, and no daemon took more than {memory} MiB or {descriptors} descriptors.
"""


def table(results, options, command):
    lines = [HEAD.format(command=command, agents=options.agents, seconds=options.seconds, memory=MOST_MEMORY_MIB,
                         descriptors=MOST_DESCRIPTORS)]
    lines += ["| " + " | ".join(COLUMNS.values()) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(result[key]) for key in COLUMNS) + " |" for result in results]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if lacks := missing():
        sys.exit(f"faulted_network: {lacks}")
    seeds = [options.seed] if options.seed is not None else range(options.first_seed, options.first_seed + options.runs)
    results = []
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        try:
            results.append(Run(seed, options.agents, options.seconds, lambda text: print("  " + text, flush=True)).go())
        except AssertionError as failure:
            sys.exit(f"{failure}\nfailed; the same again: faulted_network.py --seed {seed} --seconds {options.seconds:g} "
                     f"--agents {options.agents}")
        print(f"  {results[-1]}", flush=True)
    if options.out:
        command = (f"faulted_network.py --runs {len(results)} --first-seed {seeds[0]} --seconds {options.seconds:g} "
                   f"--agents {options.agents}")
        options.out.write_text(table(results, options, command))


if __name__ == "__main__":
    main()
