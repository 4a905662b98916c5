"""Rings between containers: by descriptor through a socket, whatever the namespaces of the two sides, and never by a name;
who is refused, and how soon an agent notices that a process it cannot see has gone."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import container  # noqa: E402
from installation import BUILD, free_port, wait_until  # noqa: E402
from networked_cluster import INJECT  # noqa: E402

PRODUCER = pathlib.Path(__file__).parent / "producer.py"
OTHER_USER = 1000
PYTHON = "/usr/bin/python3"  # which other users may run, too


@unittest.skipIf(container.missing(), container.missing())
class Containers(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-container-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.directory.chmod(0o755)
        self.port = free_port()
        self.sockets = self.directory / "sockets"
        self.sockets.mkdir()
        self.socket = self.sockets / "agent.sock"

    def keep(self, process):
        def end():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        self.addCleanup(end)
        return process

    def agent_words(self, program, state, socket):
        return [program, "--coordinator", "127.0.0.1:1", "--node", "n0", "--state", state, "--socket", socket, "--metrics-port",
                self.port, "--memory", "1GiB", "--sample-period", "0s"]

    def log(self):
        return (self.directory / "agent.log").read_text()

    def start_agent(self):
        """On the node itself."""
        words = self.agent_words(BUILD / "bin" / "trimtab-agent", self.directory / "state", self.socket)
        with open(self.directory / "agent.log", "w") as log:
            self.keep(subprocess.Popen([str(word) for word in words], stdout=log, stderr=log))
        wait_until(self.socket.exists, "the agent's socket", 20)

    def start_contained_agent(self, users=("--map-root-user",)):
        files = {"trimtab-agent": BUILD / "bin" / "trimtab-agent", "sockets": self.sockets}
        with open(self.directory / "agent.log", "w") as log:
            started = self.keep(container.start(files, self.agent_words("/mnt/trimtab-agent", "/tmp/state", "/mnt/sockets/agent.sock"),
                                                {}, users, stdout=log, stderr=log))
        wait_until(self.socket.exists, "the agent's socket", 20)
        return started

    def metric(self, name, network_of=None):
        """Of the agent; from within the network of a container's process."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        if network_of:
            fetch = f"import urllib.request as r; print(r.urlopen('{url}', timeout=10).read().decode())"
            text = subprocess.run(["nsenter", "--target", str(network_of), "--net", PYTHON, "-c", fetch],
                                  capture_output=True, text=True, check=True).stdout
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"trimtab_agent_{name} "))

    def start_producer(self, socket=None, as_user=None, library=INJECT):
        """On the node itself."""
        become = ["setpriv", f"--reuid={as_user}", f"--regid={as_user}", "--clear-groups"] if as_user else []
        environment = {"PATH": os.environ["PATH"], "TRIMTAB_SOCKET": str(socket or self.socket), "TRIMTAB_LIBRARY": str(library)}
        return self.keep(subprocess.Popen([*become, PYTHON, str(PRODUCER), "outside", "100"], env=environment,
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def start_contained_producer(self, users=("--map-root-user",), name="inside"):
        files = {"agent.sock": self.socket, "inject.so": INJECT, "producer.py": PRODUCER}
        environment = {"TRIMTAB_SOCKET": "/mnt/agent.sock", "TRIMTAB_LIBRARY": "/mnt/inject.so"}
        return self.keep(container.start(files, [PYTHON, "producer.py", name, "100"], environment, users,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))

    def counted(self, prefix):
        """Ranges in the agent's own costs, whose names begin so."""
        done = subprocess.run([str(BUILD / "bin" / "trimtab"), "db", "export", str(self.directory / "state" / "costs.db"), "--to",
                               "json", "--names"], capture_output=True, text=True)
        rows = json.loads(done.stdout)["costs"] if done.returncode == 0 else []
        return sum(row["count"] for row in rows if row["cost"]["subject"].startswith(prefix))

    def test_a_producer_in_a_container_hands_its_ring_to_an_agent_outside(self):
        self.start_agent()
        producer = self.start_contained_producer()
        self.assertEqual(producer.stdout.readline(), "active\n")
        inside = container.first_process(producer)
        self.assertEqual(os.listdir(f"/proc/{inside}/root/dev/shm"), [])
        self.assertEqual(os.listdir(f"/proc/{inside}/root/tmp"), [])
        rings = [os.readlink(f"/proc/{inside}/fd/{number}") for number in os.listdir(f"/proc/{inside}/fd")]
        self.assertNotIn("agent.sock", " ".join(rings))
        wait_until(lambda: self.metric("records_total") > 50, "records", 20)
        output, _ = producer.communicate("names 20\n", timeout=30)
        told = json.loads(output.splitlines()[-1])
        self.assertEqual(told["dropped"], 0)
        wait_until(lambda: self.counted("inside/") == told["counted"], "every range in the agent's costs", 20)
        self.assertEqual(self.metric("processes_refused_total"), 0)

    def test_several_containers_whose_processes_have_one_pid_are_kept_apart(self):
        self.start_agent()
        producers = [self.start_contained_producer(name=f"p{number}") for number in range(3)]
        for producer in producers:
            self.assertEqual(producer.stdout.readline(), "active\n")
        wait_until(lambda: self.metric("rings") == 3 and self.metric("records_total") > 150, "three rings' records", 20)
        for number, producer in enumerate(producers):
            told = json.loads(producer.communicate(timeout=30)[0].splitlines()[-1])
            self.assertGreater(told["counted"], 0)
            wait_until(lambda: self.counted(f"p{number}/") == told["counted"], f"what p{number} recorded", 20)

    def test_a_container_that_dies_is_noticed_by_its_socket(self):
        self.start_agent()
        producer = self.start_contained_producer()
        self.assertEqual(producer.stdout.readline(), "active\n")
        wait_until(lambda: self.metric("rings") == 1, "the ring", 10)
        os.kill(container.first_process(producer), signal.SIGKILL)
        wait_until(lambda: self.metric("rings") == 0, "the ring's end", 3)

    def test_an_agent_in_a_container_reads_a_ring_from_outside_and_notices_its_end_without_seeing_the_process(self):
        agent = self.start_contained_agent()
        inside = container.first_process(agent)
        producer = self.start_producer()
        self.assertEqual(producer.stdout.readline(), "active\n")
        wait_until(lambda: self.metric("rings", inside) == 1, "the ring", 10)
        wait_until(lambda: self.metric("records_total", inside) > 50, "records", 10)
        producer.kill()
        wait_until(lambda: self.metric("rings", inside) == 0, "the ring's end", 3)
        self.assertEqual(self.metric("rings_broken_total", inside), 0)

    def test_a_user_that_the_agents_container_does_not_know_is_refused(self):
        agent = self.start_contained_agent()
        self.refused(container.first_process(agent))

    def test_a_user_without_a_number_is_not_taken_for_nobody_although_the_agent_runs_as_nobody(self):
        agent = self.start_contained_agent(("--map-user=65534", "--map-group=65534"))
        self.refused(container.first_process(agent))

    def refused(self, inside):
        self.socket.chmod(0o666)
        library = self.directory / "inject.so"  # where another user may read it
        shutil.copy(INJECT, library)
        self.start_producer(as_user=OTHER_USER, library=library)
        wait_until(lambda: self.metric("processes_refused_total", inside) > 0, "the refusal", 10)
        self.assertEqual(self.metric("rings", inside), 0)
        self.assertIn("its user has no number in the agent's container", self.log())
        self.assertIn("a process that this agent cannot see", self.log())

    def test_a_container_whose_users_are_other_users_outside_is_refused(self):
        self.start_agent()
        self.socket.chmod(0o666)
        become = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
        # Root inside, user 1000 outside: what it is outside counts.
        probe = ("import socket; s = socket.socket(socket.AF_UNIX); s.connect('%s'); s.settimeout(10); print(s.recv(1))" % self.socket)
        done = subprocess.run([*become, "unshare", "--user", "--map-root-user", PYTHON, "-c", probe], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.stdout, "b''\n", done.stderr)
        self.assertIn(f"user {OTHER_USER} may not speak to the agent of user 0", self.log())


if __name__ == "__main__":
    unittest.main()
