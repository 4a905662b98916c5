"""A real coordinator and real agents under mutual TLS, each on a node of its own behind a switch, with light producers.

The coordinator is asked for by the name c0.test, which each node finds in an /etc/hosts of the cluster's own.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from installation import BUILD, TRIMTAB, is_dead, wait_until  # noqa: E402
from node_network import Condition, Namespace, Switch  # noqa: E402

HOST = "c0.test"
PORT = 7420
COORDINATOR = "c0"
INJECT = BUILD / "lib" / "libtrimtab-inject.so"
# A daemon dies with this process and sees the cluster's hosts.
ON_NODE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"')


class Node:
    def __init__(self, name, address, switch, directory):
        self.name, self.address = name, address
        self.state = directory / name
        self.socket = directory / f"{name}.sock"
        self.log = directory / f"{name}.log"
        self.namespace = Namespace()
        self.port = switch.plug(self.namespace.interface())
        self.namespace.ip("link", "set", "lo", "up")
        self.namespace.ip("link", "set", "eth0", "up")
        self.namespace.ip("address", "add", f"{address}/24", "dev", "eth0")
        self.process = None
        self.most_memory = self.most_descriptors = 0
        self.conditions = []  # (up, down), of faults that last

    def start(self, words, hosts):
        with open(self.log, "a") as log, self.namespace.entered():
            self.process = subprocess.Popen([*ON_NODE, str(hosts), *map(str, words)], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log)

    def apply(self):
        up = down = Condition()
        for one, other in self.conditions:
            up, down = up.joined(one), down.joined(other)
        self.port.up.condition, self.port.down.condition = up, down

    def meter(self):
        """How much the daemon takes, for the record; it must be alive."""
        if self.process.poll() is not None:
            raise AssertionError(f"{self.name} has ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        process = pathlib.Path(f"/proc/{self.process.pid}")
        resident = next(line for line in (process / "status").read_text().splitlines() if line.startswith("VmRSS"))
        self.most_memory = max(self.most_memory, int(resident.split()[1]) // 1024)
        self.most_descriptors = max(self.most_descriptors, len(list((process / "fd").iterdir())))

    def metric(self, name):
        """Of an agent."""
        with self.namespace.entered():
            connection = http.client.HTTPConnection("127.0.0.1", 7421, timeout=10)
            connection.connect()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return next(float(line.split()[1]) for line in text.splitlines() if line.split()[0] == f"trimtab_agent_{name}")

    def query(self, database, statement):
        with contextlib.closing(sqlite3.connect(f"file:{self.state / database}?mode=ro", uri=True, timeout=20)) as opened:
            return opened.execute(statement).fetchall()


class NetworkedCluster:
    """`with NetworkedCluster(agents=3) as cluster:`; `settings` are flags of the coordinator and of all agents."""

    def __init__(self, agents=3, seed=1, coordinator_settings=(), agent_settings=()):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-nodes-"))
        self.settings = {COORDINATOR: coordinator_settings, "agent": agent_settings}
        self.names = [f"n{number}" for number in range(agents)]
        self.seed = seed
        self.producers = {}
        self._closing = contextlib.ExitStack()

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def _begin(self):
        self._closing.callback(shutil.rmtree, self.directory, ignore_errors=True)
        switch = Switch(self.seed)
        self._closing.callback(switch.close)
        self._issue_certificates()
        self.hosts = self.directory / "hosts"
        self.hosts.write_text("")
        self.place_coordinator("10.77.0.1")
        self.nodes = {COORDINATOR: Node(COORDINATOR, "10.77.0.1", switch, self.directory)}
        for number, name in enumerate(self.names):
            self.nodes[name] = Node(name, f"10.77.0.{10 + number}", switch, self.directory)
        for node in self.nodes.values():
            self._closing.callback(node.namespace.close)
            self._closing.callback(self._end, node)
            self.start(node.name)

    def __exit__(self, kind, value, trace):
        for producer in self.producers.values():
            producer.kill()
            producer.communicate()
        if kind is not None and os.environ.get("TRIMTAB_KEEP"):
            kept = shutil.copytree(self.directory, f"{self.directory}-kept", ignore=shutil.ignore_patterns("*.sock"))
            print(f"kept: {kept}")
        self._closing.close()

    @staticmethod
    def _end(node):
        if node.process is not None and node.process.poll() is None:
            node.process.kill()
            node.process.wait()

    def _issue_certificates(self):
        folder = self.directory / "ca"
        self._run("cert", "init", "--dir", folder, "--cluster", "nodes")
        self._run("cert", "issue", "coordinator", COORDINATOR, "--host", HOST, "--host", "127.0.0.1", "--dir", folder)
        for name in self.names:
            self._run("cert", "issue", "node", name, "--dir", folder)
        self._run("cert", "issue", "person", "ana", "--dir", folder)
        self._run("token", "add", "ana", "--role", "view", "--tenant", "*", "--tokens", self.directory / "tokens", "-o",
                  self.directory / "ana.token")

    @staticmethod
    def _run(*words):
        done = subprocess.run([str(TRIMTAB), *map(str, words)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{words} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def place_coordinator(self, *addresses):
        """Where its name leads from now on. In place: the file is mounted."""
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {HOST}\n" for address in addresses))

    def start(self, name):
        folder = self.directory / "ca"
        tls = ("--tls-authority", folder / "ca.crt", "--tls-certificate", folder / f"{name}.crt", "--tls-key", folder / f"{name}.key")
        node = self.nodes[name]
        if name == COORDINATOR:
            words = (BUILD / "bin" / "trimtab-coordinator", "--listen", f"0.0.0.0:{PORT}", "--state", node.state, "--tokens",
                     self.directory / "tokens", *tls, *self.settings[COORDINATOR])
        else:
            words = (BUILD / "bin" / "trimtab-agent", "--coordinator", f"{HOST}:{PORT}", "--node", name, "--state", node.state,
                     "--socket", node.socket, "--memory", "1GiB", "--sample-period", "0s", *tls, *self.settings["agent"])
        node.start(words, self.hosts)

    def kill(self, name):
        node = self.nodes[name]
        node.process.send_signal(signal.SIGKILL)
        node.process.wait()

    def get(self, path):
        """A document of the coordinator, asked from its own node: no link is in between."""
        context = ssl.create_default_context(cafile=self.directory / "ca" / "ca.crt")
        context.load_cert_chain(self.directory / "ca" / "ana.crt", self.directory / "ca" / "ana.key")
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, timeout=10, context=context)
        token = (self.directory / "ana.token").read_text().strip()
        with self.nodes[COORDINATOR].namespace.entered():
            connection.connect()
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse().read()
        connection.close()
        return answer.decode()

    def members(self):
        """What the coordinator says of each node; nothing while it cannot be asked."""
        try:
            return {node["name"]: node for node in json.loads(self.get("/v1/nodes"))["nodes"]}
        except (OSError, http.client.HTTPException):
            return {}

    def connected(self):
        return sorted(name for name, node in self.members().items() if node["state"] == "connected")

    def wait_for_all(self, seconds=60):
        wait_until(lambda: self.connected() == self.names, "every agent's connection", seconds)

    def produce(self, name, rate=100):
        """A producer at the agent's socket, which records by the time this returns."""
        self.producers[name] = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", sys.executable, pathlib.Path(__file__).parent / "producer.py", name, str(rate)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TRIMTAB_SOCKET": str(self.nodes[name].socket), "TRIMTAB_LIBRARY": str(INJECT)})
        return self.producers[name]

    def swallow(self, address):
        """What a node sends to this address is lost without a word."""
        for node in self.nodes.values():
            node.namespace.ip("neighbour", "replace", address, "lladdr", "02:00:00:00:00:66", "dev", "eth0", "nud", "permanent")

    def ask_from(self, name, *words):
        """A person's command on a node."""
        folder = self.directory / "ca"
        tls = ("--tls-authority", folder / "ca.crt", "--tls-certificate", folder / "ana.crt", "--tls-key", folder / "ana.key")
        command = (*ON_NODE, self.hosts, TRIMTAB, *words, "--coordinator", f"{HOST}:{PORT}", "--state", self.directory / "none",
                   "--token-file", self.directory / "ana.token", *tls)
        with self.nodes[name].namespace.entered():
            return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)

    def stop_producers(self):
        """What each has recorded."""
        told = {}
        for name, producer in self.producers.items():
            output, _ = producer.communicate(timeout=60)
            told[name] = json.loads(output.splitlines()[-1])
        self.producers = {}
        return told

    def stop(self):
        """Every daemon by SIGTERM; how long the slowest took."""
        begin = time.monotonic()
        for node in self.nodes.values():
            node.process.terminate()
        for node in self.nodes.values():
            if node.process.wait(timeout=30) != 0:
                raise AssertionError(f"{node.name} ended with {node.process.returncode}:\n{node.log.read_text()[-3000:]}")
        return time.monotonic() - begin

    def costs(self, *databases):
        """The costs of databases, merged, as text."""
        merged = self.directory / f"merged-{time.monotonic_ns()}.db"
        self._run("db", "merge", merged, *databases)
        return self._run("db", "export", merged, "--to", "json", "--names")

    def logs(self):
        return "\n".join(f"--- {name}\n{node.log.read_text()[-3000:]}" for name, node in self.nodes.items())


__all__ = ["COORDINATOR", "Condition", "NetworkedCluster", "is_dead", "wait_until"]
