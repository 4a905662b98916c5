"""The network between the ranks of a switched job: each node in a network namespace of its own, on a switch that can cut it off.

Agents and ranks are there; what an agent says to the coordinator takes another way (switched_job.py). Needs what
namespaces/node_network.py needs: missing() says what of it is absent.
"""
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent / "namespaces"))
from node_network import Condition, Namespace, Switch, missing  # noqa: E402

INTERFACE = "eth0"
# What of a node's link is cut: what it sends, what it is sent, or both.
WAYS = {"both ways": (True, True), "outwards": (True, False), "inwards": (False, True)}


class RankNetwork:
    def __init__(self, nodes):
        self._switch = Switch(seed=0)
        self._namespaces = [Namespace() for _ in range(nodes)]
        self._ports = [self._switch.plug(namespace.interface()) for namespace in self._namespaces]
        for node, namespace in enumerate(self._namespaces):
            namespace.ip("link", "set", "lo", "up")
            namespace.ip("link", "set", INTERFACE, "up")
            namespace.ip("address", "add", f"{self.address(node)}/24", "dev", INTERFACE)

    def close(self):
        self._switch.close()
        for namespace in self._namespaces:
            namespace.close()

    @staticmethod
    def address(node):
        return f"10.77.0.{10 + node}"

    def entered(self, node):
        """Processes that this thread starts meanwhile are on the node."""
        return self._namespaces[node].entered()

    def listener(self, node):
        """A socket on the node's loopback that listens, to be served by this process."""
        with self.entered(node):
            return socket.create_server(("127.0.0.1", 0))

    def cut(self, node, ways):
        """What passes is lost without a word, from now on. Any thread."""
        up, down = WAYS[ways]
        self._ports[node].up.condition, self._ports[node].down.condition = Condition(cut=up), Condition(cut=down)

    def heal(self):
        for port in self._ports:
            port.up.condition = port.down.condition = Condition()


__all__ = ["INTERFACE", "WAYS", "RankNetwork", "missing"]
