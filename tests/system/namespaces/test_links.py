"""Links that fail in silence, lead elsewhere or are too slow for what must pass: each side notices within its limit, and
nobody is taken for gone who is only slow."""
import subprocess
import time
import unittest

from networked_cluster import COORDINATOR, Condition, NetworkedCluster, wait_until
from node_network import missing

SILENCE_LIMIT, NODE_TIMEOUT = 6, 5
SETTINGS = {"coordinator_settings": ("--node-timeout", f"{NODE_TIMEOUT}s"), "agent_settings": ("--silence-limit", f"{SILENCE_LIMIT}s")}
COMING_BACK = 5 + 5  # the longest wait between two attempts, and an attempt
CUT = Condition(cut=True)


@unittest.skipIf(missing(), missing())
class Links(unittest.TestCase):
    def cluster(self, agents=1):
        cluster = NetworkedCluster(agents, **SETTINGS)
        self.enterContext(cluster)
        cluster.wait_for_all()
        return cluster

    def elapsed(self, condition, what, most):
        begin = time.monotonic()
        wait_until(condition, what, most)
        return time.monotonic() - begin

    def state(self, cluster, node="n0"):
        return cluster.members()[node]["state"]

    def disturb(self, cluster, name, up=Condition(), down=Condition()):
        cluster.nodes[name].conditions = [(up, down)]
        cluster.nodes[name].apply()

    # In the log: where the agent finds the coordinator again at once, its metrics, made twice a second, may never tell.
    def wait_for_notice(self, agent, told=0):
        wait_until(lambda: agent.log.read_text().count("silent for too long") > told, "the agent's notice", SILENCE_LIMIT + 2)

    def test_a_link_that_is_cut_in_silence_is_noticed_by_both_sides_and_made_anew(self):
        cluster = self.cluster()
        agent = cluster.nodes["n0"]
        for up, down in ((CUT, CUT), (CUT, Condition()), (Condition(), CUT)):
            with self.subTest(up=up.cut, down=down.cut):
                told = agent.log.read_text().count("silent for too long")
                self.disturb(cluster, "n0", up, down)
                begin = time.monotonic()
                self.wait_for_notice(agent, told)
                wait_until(lambda: agent.metric("coordinator_connected") == 0, "a page that says so", 2)
                if up.cut:
                    left = NODE_TIMEOUT + 3 - (time.monotonic() - begin)
                    wait_until(lambda: self.state(cluster) == "lost", "the coordinator's notice", left)
                self.assertEqual(agent.log.read_text().count("silent for too long"), told + 1)
                self.disturb(cluster, "n0")
                cluster.wait_for_all(COMING_BACK + 1)
        # The coordinator holds nothing of the connections that nobody has closed.
        wait_until(lambda: sockets(cluster.nodes[COORDINATOR]) <= 2, "the end of every connection but one", 70)

    def test_a_coordinator_whose_address_changes_is_followed_by_name(self):
        cluster = self.cluster()
        node = cluster.nodes[COORDINATOR]
        node.namespace.ip("address", "flush", "dev", "eth0")
        node.namespace.ip("address", "add", "10.77.0.200/24", "dev", "eth0")
        cluster.place_coordinator("10.77.0.200")
        self.wait_for_notice(cluster.nodes["n0"])
        cluster.wait_for_all(COMING_BACK + 1)

    def test_an_address_that_swallows_everything_does_not_keep_an_agent_from_the_others(self):
        cluster = self.cluster()
        cluster.swallow("10.77.0.66")
        cluster.place_coordinator("10.77.0.66", "10.77.0.1")
        cluster.kill("n0")
        cluster.start("n0")
        cluster.wait_for_all(COMING_BACK + 5)
        # The same for a person's command.
        begin = time.monotonic()
        done = cluster.ask_from("n0", "status", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_slow_link_delivers_large_batches_and_its_node_is_not_lost(self):
        cluster = self.cluster()
        agent = cluster.nodes["n0"]
        slow = Condition(rate=64_000)
        self.disturb(cluster, "n0", slow, slow)
        producer = cluster.produce("n0")
        self.assertEqual(producer.stdout.readline(), "active\n")
        producer.stdin.write("names 1500\n")
        producer.stdin.flush()
        wait_until(lambda: agent.metric("spool_bytes") > 100_000, "the spooling of large batches", 20)
        seen = set()

        def drained():
            seen.add(self.state(cluster))
            return agent.metric("spool_bytes") == 0
        told = cluster.stop_producers()["n0"]
        self.elapsed(drained, "the draining of the spool", 200)
        self.assertEqual(seen, {"connected"})
        self.assertNotIn("silent for too long", agent.log.read_text())
        self.assertEqual(told["dropped"], 0)
        self.assertEqual(cluster.costs(agent.state / "costs.db"), cluster.costs(cluster.nodes[COORDINATOR].state / "costs.db"))

    def test_an_agent_ends_at_once_while_its_coordinator_cannot_be_reached(self):
        cluster = self.cluster()
        self.disturb(cluster, "n0", CUT, CUT)
        self.assertLess(cluster.stop(), 5)


def sockets(node):
    """How many TCP connections a node's daemon has."""
    with node.namespace.entered():
        lines = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)


if __name__ == "__main__":
    unittest.main()
