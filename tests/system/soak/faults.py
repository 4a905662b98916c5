"""What goes wrong in a soak, chosen by a seed: daemons and ranks that are killed, stand still, find their disk full, lose their
link, get new certificates, and meet peers that speak nonsense."""
import os
import signal
import socket
import ssl
import struct
import threading
import time

PAUSE_S = (1.0, 4.0)


class Faults:
    def __init__(self, cluster, random):
        self._cluster, self._random = cluster, random
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.thrown = {}
        self.broken = []  # of the harness itself
        self._restarts = {"daemon: SIGKILL, started again": self._kill,
                          "daemon: SIGTERM, started again": self._terminate}
        self.kinds = {"daemon: stands still for seconds": self._stop, "link: cut, refused for seconds": self._cut,
                      "link: holds everything for seconds": self._hold, "rank: SIGKILL": self._kill_rank,
                      "new certificates and SIGHUP": self._reload, "peer: nonsense on the coordinator's port": self._nonsense,
                      "peer: nonsense on an agent's socket": self._nonsense_local}
        if all(daemon.has_own_disk for daemon in cluster.daemons):
            self.kinds["daemon: disk full for seconds"] = self._fill
        self.kinds |= self._restarts

    def start(self):
        self._thread.start()

    def stop(self):
        self._stopping.set()
        self._thread.join()

    def no_restarts(self):
        """From now on processes live on, so that their growth can be seen."""
        self.kinds = {name: throw for name, throw in self.kinds.items() if name not in self._restarts}

    def _run(self):
        while not self._stopping.wait(self._random.uniform(*PAUSE_S)):
            name = self._random.choice(sorted(self.kinds))
            try:
                self.kinds[name]()
                self.thrown[name] = self.thrown.get(name, 0) + 1
            except Exception as failure:  # The verdict names it; the other faults go on.
                self.broken.append(f"{name}: {failure!r}")

    def _daemon(self):
        # The coordinator is hit as often as all agents together.
        return self._random.choice([self._cluster.coordinator] * len(self._cluster.agents) + self._cluster.agents)

    def _seconds(self):
        return self._random.choice((0.3, 1, 3, 8))

    def _kill(self):
        self._daemon().restart(signal.SIGKILL)

    def _terminate(self):
        code = self._daemon().restart(signal.SIGTERM)
        assert code == 0, f"a daemon that was told to end gave {code}"

    def _stop(self):
        self._daemon().stand_still(self._seconds())

    def _cut(self):
        self._random.choice(self._cluster.links).cut(self._seconds())

    def _hold(self):
        self._random.choice(self._cluster.links).hold(self._seconds())

    def _kill_rank(self):
        ranks = self._cluster.ranks()
        if ranks:
            try:
                os.kill(self._random.choice(ranks), signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _reload(self):
        daemon = self._daemon()
        if daemon.kind == "coordinator":
            self._cluster.issue("coordinator", "c0")
        else:
            self._cluster.issue("node", daemon.name)
        with daemon.lock:
            if daemon.pid():
                daemon.process.send_signal(signal.SIGHUP)

    def _fill(self):
        state = self._daemon().state
        ballast = state / "ballast"
        try:
            with open(ballast, "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        except OSError:
            pass
        time.sleep(self._seconds())
        ballast.unlink(missing_ok=True)

    def _nonsense(self):
        size = self._random.choice((10, 1000, 100_000))
        data = self._random.choice((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", self._random.randbytes(size), b"\x16\x03\x01" + b"\xff" * size))
        with socket.create_connection(("127.0.0.1", self._cluster.port), timeout=5) as plain:
            self._say(plain, data)
        node = self._random.choice(self._cluster.agents).name
        context = ssl.create_default_context(cafile=self._cluster._path("ca/ca.crt"))
        context.load_cert_chain(self._cluster._path(f"ca/{node}.crt"), self._cluster._path(f"ca/{node}.key"))
        try:
            with socket.create_connection(("127.0.0.1", self._cluster.port), timeout=5) as plain, \
                    context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                self._say(secure, self._random.choice((data, b"GET /v1/agent HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n" + b"A: b\r\n" * 9)))
        except OSError:
            pass

    @staticmethod
    def _say(connection, data):
        try:
            connection.sendall(data)
            connection.settimeout(1)
            connection.recv(100)
        except OSError:
            pass

    def _nonsense_local(self):
        path = self._cluster._path(f"{self._random.choice(self._cluster.agents).name}.sock")
        bodies = (b"{}", b"nonsense", b'{"type": "hello", "version": 99}', self._random.randbytes(50))
        frames = [struct.pack("<I", len(body)) + body for body in bodies] + [struct.pack("<I", 1 << 30)]
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(path)
                self._say(connection, self._random.choice(frames))
        except OSError:
            pass
