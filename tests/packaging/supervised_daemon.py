"""What systemd is to a daemon: a socket that it notifies, and the command line of its unit."""

import os
import pathlib
import re
import shlex
import socket
import subprocess
import time

from installation import BUILD, ROOT

UNITS = ROOT / "packaging" / "systemd"


def read_unit(name):
    """Sections of a unit; each key has the list of its values."""
    sections, section = {}, None
    for line in (UNITS / name).read_text().splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), {})
        else:
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return sections


def upgrade_limit():
    """How many seconds the coordinator gives the upgrade of a database, before it serves."""
    source = (ROOT / "schema/src/postgres/postgres_tables.cpp").read_text()
    return 60 * int(re.search(r"kUpgradeLimit = std::chrono::minutes\((\d+)\)", source).group(1))


class Manager:
    """`with Manager(directory, unit) as manager:` listens; start() runs the unit's command with its places in `directory`."""

    def __init__(self, directory, unit, instance=""):
        self.directory = pathlib.Path(directory)
        self.unit = unit
        self.instance = instance
        self.heard = []
        self.process = None

    def __enter__(self):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.directory / "notify"))
        return self

    def __exit__(self, *ignored):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.socket.close()

    def command(self):
        (words,) = read_unit(self.unit)["Service"]["ExecStart"]
        places = {
            "/usr/bin/": f"{BUILD}/bin/",
            "/etc/trimtab/": f"{ROOT}/packaging/etc/",
            "/var/lib/trimtab/": f"{self.directory}/lib/",
            "/run/": f"{self.directory}/run/",
            "%i": self.instance,
        }
        for old, new in places.items():
            words = words.replace(old, new)
        return shlex.split(words)

    def start(self, *more, watchdog_usec=None, **variables):
        environment = {**os.environ, "NOTIFY_SOCKET": str(self.directory / "notify"), **variables}
        if watchdog_usec:
            environment["WATCHDOG_USEC"] = str(watchdog_usec)
        with open(self.directory / "log", "w") as log:
            self.process = subprocess.Popen([*self.command(), *more], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment, cwd=self.directory)

    def log(self):
        return (self.directory / "log").read_text()

    def receive(self, seconds):
        """What comes within so many seconds, as soon as it comes; nothing where none does."""
        self.socket.settimeout(seconds)
        try:
            datagram = self.socket.recv(4096).decode()
        except TimeoutError:
            return None
        self.heard.append(dict(line.split("=", 1) for line in datagram.splitlines()))
        return self.heard[-1]

    def wait_for(self, key, value="1", seconds=20):
        """Until a datagram says KEY=value; gives the datagram."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            datagram = self.receive(left)
            if datagram and datagram.get(key) == value:
                return datagram
            if self.process.poll() is not None and not datagram:
                break
        raise AssertionError(f"no {key}={value} came; heard {self.heard}, log:\n{self.log()}")
