"""The daemons of a soak: a coordinator and agents under mutual TLS, each with a small disk of its own, on loopback."""
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import time

from cut_link import CutLink
from installation import BUILD, TRIMTAB, free_port, wait_until

DISK_MIB = 64


class Daemon:
    """A program that is started again and again on the same state."""

    def __init__(self, name, kind, directory, arguments):
        self.name, self.kind = name, kind
        self.state = directory / name
        self.arguments = [str(BUILD / "bin" / f"trimtab-{kind}"), *map(str, arguments)]
        self.log_file = directory / f"{name}.log"
        self.lives = 0
        self.process = None
        self.has_own_disk = False
        self.lock = threading.RLock()  # held while it is between two lives, or stands still

    def mount(self):
        """Its state on a file system that can be filled; False where this user may not mount one."""
        self.state.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(self.state)],
                              capture_output=True)
        self.has_own_disk = done.returncode == 0

    def start(self):
        with self.lock, open(self.log_file, "a") as log:
            self.process = subprocess.Popen(self.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            self.lives += 1

    def pid(self):
        """None while no process of it runs."""
        return self.process.pid if self.process and self.process.poll() is None else None

    def end(self, how, patience=30):
        with self.lock:
            if self.process.poll() is None:
                self.process.send_signal(how)
            return self.process.wait(timeout=patience)

    def restart(self, how):
        with self.lock:
            code = self.end(how)
            self.start()
            return code

    def stand_still(self, seconds):
        with self.lock:
            self.process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                self.process.send_signal(signal.SIGCONT)

    def remove(self):
        if self.has_own_disk:
            subprocess.run(["umount", "-l", str(self.state)], check=False)

    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""


class Cluster:
    """`with Cluster(...) as cluster:`. `retention_s` is for all that has one; None leaves the daemons' defaults."""

    def __init__(self, agents, retention_s=None, sample_period="5s"):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-soak-"))
        self.counts = self.directory / "counts"
        self.counts.mkdir()
        self.port = free_port()
        self._certify(agents)
        self.coordinator = self._coordinator(retention_s)
        self.links, self.agents = [], []
        for i in range(agents):
            self.links.append(CutLink(self.port))
            self.agents.append(self._agent(i, retention_s, sample_period))
        self.daemons = [self.coordinator, *self.agents]
        self._context = self._client_context()

    def _path(self, name):
        return str(self.directory / name)

    def _run(self, *arguments):
        done = subprocess.run([str(TRIMTAB), *map(str, arguments)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, f"trimtab {arguments} gave {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _certify(self, agents):
        self._run("cert", "init", "--dir", self._path("ca"), "--cluster", "soak")
        self.issue("coordinator", "c0")
        for i in range(agents):
            self.issue("node", f"n{i}")
        self._run("cert", "issue", "person", "ana", "--dir", self._path("ca"))
        self._run("token", "add", "ana", "--role", "operate", "--tenant", "*", "--tokens", self._path("tokens"), "-o", self._path("ana.token"))

    def issue(self, kind, name):
        self._run("cert", "issue", kind, name, "--host", "127.0.0.1", "--host", "localhost", "--dir", self._path("ca"))

    def tls(self, name):
        return ("--tls-authority", self._path("ca/ca.crt"), "--tls-certificate", self._path(f"ca/{name}.crt"),
                "--tls-key", self._path(f"ca/{name}.key"))

    def _coordinator(self, retention_s):
        kept = () if retention_s is None else ("--job-retention", f"{retention_s}s", "--audit-retention", f"{retention_s}s")
        return Daemon("coordinator", "coordinator", self.directory,
                      ["--listen", f"127.0.0.1:{self.port}", "--state", self._path("coordinator"), "--tokens", self._path("tokens"),
                       "--search-time", "500ms", *self.tls("c0"), *kept])

    def _agent(self, i, retention_s, sample_period):
        kept = () if retention_s is None else ("--job-retention", f"{retention_s}s", "--spool-limit", "1MiB")
        metrics = free_port()
        daemon = Daemon(f"n{i}", "agent", self.directory,
                        ["--coordinator", f"127.0.0.1:{self.links[i].port}", "--node", f"n{i}", "--state", self._path(f"n{i}"),
                         "--socket", self._path(f"n{i}.sock"), "--metrics-port", metrics, "--memory", "1GiB", "--devices", "2",
                         "--sample-period", sample_period, *self.tls(f"n{i}"), *kept])
        daemon.metrics_port = metrics
        return daemon

    def _client_context(self):
        context = ssl.create_default_context(cafile=self._path("ca/ca.crt"))
        context.load_cert_chain(self._path("ca/ana.crt"), self._path("ca/ana.key"))
        return context

    def __enter__(self):
        try:
            for daemon in self.daemons:
                daemon.mount()
                daemon.start()
            wait_until(self.connected, "the agents' joining", 60)
        except BaseException as failure:
            print("\n".join(f"--- {daemon.name}\n{daemon.log()[-3000:]}" for daemon in self.daemons))
            self.__exit__(type(failure), failure, None)
            raise
        return self

    def __exit__(self, kind, value, trace):
        for daemon in reversed(self.daemons):
            if daemon.process is None:
                continue
            try:
                daemon.end(signal.SIGTERM)
            except subprocess.TimeoutExpired:
                daemon.end(signal.SIGKILL)
        for pid in self.ranks():  # They outlive their agents.
            os.kill(pid, signal.SIGKILL)
        for link in self.links:
            link.close()
        keep = os.environ.get("TRIMTAB_KEEP")
        if keep:
            print(f"kept: {self.directory}")
        else:
            for daemon in self.daemons:
                daemon.remove()
            shutil.rmtree(self.directory, ignore_errors=True)

    def ranks(self):
        """Pids of the soak's own ranks: their command lines name its directory."""
        pids = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"train" in words and str(self.counts).encode() in words:
                pids.append(int(entry.name))
        return sorted(pids)

    def connected(self):
        """Whether the coordinator has heard from all agents."""
        try:
            status, text = self.request("GET", "/metrics")
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and f'trimtab_nodes{{state="connected"}} {len(self.agents)}\n' in text

    def request(self, method, target, body=None, timeout=10):
        """What the coordinator answers: status and body."""
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self._context)
        try:
            token = pathlib.Path(self._path("ana.token")).read_text().strip()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def agent_metrics(self, agent, timeout=10):
        connection = http.client.HTTPConnection("127.0.0.1", agent.metrics_port, timeout=timeout)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def command(self, *arguments, timeout=30):
        """A verb of `trimtab` that asks the coordinator, as a person."""
        return subprocess.run([str(TRIMTAB), *arguments, "--coordinator", f"127.0.0.1:{self.port}", "--state", self._path("none"),
                               "--token-file", self._path("ana.token"), *self.tls("ana")],
                              capture_output=True, text=True, timeout=timeout)
