"""A throw-away PostgreSQL server for two coordinators: their costs in one schema, the state of each in one of its own."""
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from installation import wait_until

PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")  # as tests/CMakeLists.txt looks for them


def programs():
    """The folder of the server's programs; None where it is not installed."""
    found = [place for pattern in PLACES for place in sorted(pathlib.Path("/").glob(pattern[1:])) if (place / "initdb").exists()]
    return found[-1] if found else None


def _as_server():
    """It refuses to be root's."""
    if os.geteuid() != 0:
        return ()
    name = next(entry.pw_name for entry in pwd.getpwall() if entry.pw_name in ("postgres", "nobody"))
    return ("setpriv", f"--reuid={name}", f"--regid={pwd.getpwnam(name).pw_gid}", "--clear-groups", "--pdeathsig=INT")


class Postgres:
    def __init__(self, schemas):
        self._programs = programs()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        if os.geteuid() == 0:
            shutil.chown(self.directory, _as_server()[1].partition("=")[2])
        self._run("initdb", "-D", self.directory / "data", "-U", "trimtab", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.process = None
        self.start()
        self.query(*(f"CREATE SCHEMA {schema}" for schema in schemas))

    def _run(self, program, *words):
        subprocess.run([*_as_server(), self._programs / program, *map(str, words)], check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        with open(self.directory / "log", "a") as log:
            self.process = subprocess.Popen([*_as_server(), self._programs / "postgres", "-D", self.directory / "data", "-k", self.directory,
                                             "-c", "listen_addresses=", "-c", "fsync=off", "-c", "deadlock_timeout=50ms"],
                                            stdout=log, stderr=log, cwd="/")
        ready = [self._programs / "pg_isready", "-q", "-h", self.directory, "-U", "trimtab"]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL's start", 30)

    def restart(self):
        """As a server that crashes: what was committed is in its log."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        self.start()

    def name(self, schema):
        return f"postgresql://trimtab@/postgres?host={self.directory}&options=-csearch_path%3D{schema}&application_name={schema}"

    def query(self, *statements):
        """Rows of texts."""
        words = [word for statement in statements for word in ("-c", statement)]
        done = subprocess.run([self._programs / "psql", "-qAtX", "-h", self.directory, "-U", "trimtab", "postgres", *words], check=True,
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        return [line.split("|") for line in done.stdout.splitlines()]

    def end_connections(self, schema=None):
        whose = f" AND application_name = '{schema}'" if schema else ""
        self.query("SELECT count(pg_terminate_backend(pid, 2000)) FROM pg_stat_activity WHERE backend_type = 'client backend' "
                   f"AND pid <> pg_backend_pid(){whose}")

    def close(self):
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
