"""The Debian packages in a fresh Debian 12: installed, used, upgraded over databases of earlier releases, removed, purged. Needs root,
debootstrap and a mirror."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request

from installation import ROOT, wait_until
from older_databases import FINGERPRINT_HASH, OLDER_DATABASES

PACKAGES = ["trimtab", "trimtab-agent", "trimtab-coordinator"]
COORDINATOR = "127.0.0.1:17420"  # the change of root shares the network
ASKED = ("--coordinator", COORDINATOR, "--token-file", "/root/token")
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
# Stands for systemd, which does not run in a change of root. Fails at everything while there is a file /systemctl.fails.
SYSTEMCTL = "#!/bin/sh\necho \"$*\" >>/systemctl.log\n[ ! -e /systemctl.fails ]\n"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, **more)


def built(revision):
    """The packages of that revision."""
    done = run(ROOT / "scripts" / "package", revision)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted((ROOT / "build" / "packages").glob("*.deb"))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="trimtab-debian-"))
        cls.addClassCleanup(cls.remove_root)
        cls.root.chmod(0o755)  # it becomes everybody's "/"
        done = run("debootstrap", "--variant=minbase", "--include=adduser,logrotate", "bookworm", cls.root, MIRROR)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        for place, kind in (("proc", "proc"), ("dev/shm", "tmpfs")):
            (cls.root / place).mkdir(parents=True, exist_ok=True)
            done = run("mount", "-t", kind, kind, cls.root / place)
            assert done.returncode == 0, done.stderr
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", cls.root / "etc" / name)
        (cls.root / "run/systemd/system").mkdir(parents=True)
        systemctl = cls.root / "usr/bin/systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        for revision in (1, 2):
            place = cls.root / f"debs{revision}"
            place.mkdir()
            for package in built(revision):
                shutil.copy(package, place)
        cls.inside("apt-get", "update", "-qq")
        cls.before = cls.paths()

    @classmethod
    def remove_root(cls):
        for place in ("proc", "dev/shm"):
            run("umount", cls.root / place)
        assert str(cls.root) not in pathlib.Path("/proc/mounts").read_text(), f"something is still mounted below {cls.root}"
        shutil.rmtree(cls.root)

    @classmethod
    def inside(cls, *words, code=0, **more):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C",
                       "DEBIAN_FRONTEND": "noninteractive"}
        done = run("chroot", cls.root, *words, env=environment, **more)
        assert done.returncode == code, f"{words} gave {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    @classmethod
    def paths(cls):
        """Everything of ours or of nobody: no process's, no cache's, no other package's."""
        found = run("find", cls.root, "-xdev", "-name", "*trimtab*", "-not", "-path", "*/debs*")
        return set(found.stdout.split())

    @classmethod
    def installed(cls, name):
        said = run("chroot", cls.root, "dpkg-query", "-W", "-f=${Status} ${Version}", name).stdout
        return said.split()[-1] if "install ok installed" in said else None

    def systemctl(self):
        """What systemd has been told since it was last asked."""
        log = self.root / "systemctl.log"
        calls = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return calls

    def place(self, revision):
        self.inside("bash", "-c", f"apt-get install -y -qq --no-install-recommends /debs{revision}/*.deb")

    def test_life_of_an_installation(self):
        for step in (self.install, self.use, self.upgrade, self.use_what_was_there, self.upgrade_without_systemd, self.remove, self.purge):
            with self.subTest(step.__name__):
                step()

    def install(self):
        self.place(1)
        for name in PACKAGES:
            self.assertTrue(self.installed(name).endswith("-1"), name)
        self.assertEqual(self.inside("dpkg", "--verify", *PACKAGES), "")
        self.assertIn("trimtab (= ", self.inside("dpkg-query", "-W", "-f=${Depends}", "trimtab-agent"))
        for user in ("trimtab", "trimtab-coordinator"):
            self.assertIn("/usr/sbin/nologin", self.inside("getent", "passwd", user))
        # Nothing is started before somebody has said what: only told of.
        self.assertEqual(set(self.systemctl()), {"daemon-reload"})
        self.inside("logrotate", "--debug", "/etc/logrotate.d/trimtab")
        listed = self.inside("dpkg", "-L", "trimtab").splitlines()
        for place in ("bash-completion/completions/trimtab", "zsh/vendor-completions/_trimtab", "man/man1/trimtab.1.gz",
                      "man/man1/trimtab-run.1.gz", "man/man1/trimtab-agent.1.gz", "doc/trimtab/examples/torchrun-ddp/job.toml"):
            self.assertIn(f"/usr/share/{place}", listed)

    def use(self):
        self.assertRegex(self.inside("trimtab", "--version"), r"\d+\.\d+")
        self.inside("python3", "-c", "import trimtab, trimtab.slurm, trimtab.slot; trimtab.connect()")
        for plugin in ("profiler", "tuner"):
            self.assertEqual(os.readlink(self.root / f"usr/lib/trimtab/libnccl-{plugin}-trimtab.so"), "libtrimtab-inject.so")
        report = run("chroot", self.root, "trimtab", "doctor").stdout
        self.assertIn("/usr/lib/trimtab/libtrimtab-inject.so", report)
        self.assertIn("there is no file /etc/trimtab/tokens", report)
        self.inside("bash", "-c", "umask 027; trimtab token add ana --role operate --tenant '*' --tokens /etc/trimtab/tokens"
                                  " -o /root/token && trimtab token add n0 --role agent --tenant '*' --tokens /etc/trimtab/tokens"
                                  " -o /etc/trimtab/agent.token")
        self.inside("bash", "-c", "chgrp trimtab-coordinator /etc/trimtab/tokens && chmod 640 /etc/trimtab/tokens"
                                  " && chgrp trimtab /etc/trimtab/agent.token && chmod 640 /etc/trimtab/agent.token")
        with self.daemons():
            self.assertNotIn("was not found", (self.root / "agent.log").read_text())
            report = run("chroot", self.root, "trimtab", "doctor", "--metrics-port", "17421", *ASKED).stdout
            self.assertIn("0 ranks, connected to the coordinator", report)
            self.assertIn("1 nodes connected", report)

    @contextlib.contextmanager
    def daemons(self):
        """Both, the agent joined; in the end they end as they should."""
        daemons = [self.start("coordinator", "trimtab-coordinator", "--listen", COORDINATOR),
                   self.start("agent", "trimtab", "--coordinator", COORDINATOR, "--socket", "/run/trimtab/agent.sock",
                              "--token-file", "/etc/trimtab/agent.token", "--metrics-port", "17421")]
        try:
            wait_until(lambda: "connected" in run("chroot", self.root, "trimtab", "status", *ASKED).stdout, "the agent's joining", 30)
            yield
        finally:
            for daemon in daemons:
                daemon.send_signal(signal.SIGTERM)
            self.assertEqual([daemon.wait(timeout=30) for daemon in daemons], [0, 0])

    def start(self, daemon, user, *more):
        """As its unit does, without a systemd."""
        for place in (f"/var/lib/trimtab/{daemon}", "/run/trimtab"):
            self.inside("install", "-d", "-o", user, "-m", "0755" if place.startswith("/run") else "0700", place)
        words = [f"/usr/bin/trimtab-{daemon}", "--config", f"/etc/trimtab/{daemon}.toml", "--state", f"/var/lib/trimtab/{daemon}"]
        with open(self.root / f"{daemon}.log", "w") as log:
            return subprocess.Popen(["chroot", f"--userspec={user}:{user}", str(self.root), *words, *more],
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def upgrade(self):
        settings = self.root / "etc/trimtab/agent.toml"
        mine = settings.read_text() + "# mine\n"
        settings.write_text(mine)
        state = self.root / "var/lib/trimtab"
        for older in OLDER_DATABASES:
            older.write(state)
        self.systemctl()
        self.place(2)
        for name in PACKAGES:
            self.assertTrue(self.installed(name).endswith("-2"), name)
        self.assertEqual(settings.read_text(), mine)
        for older in OLDER_DATABASES:  # it is the daemons that upgrade them
            self.assertEqual(older.versions(state), (older.version, None), older.path)
        calls = self.systemctl()
        # Not waited for: a daemon whose database is away does not come up.
        self.assertIn("--no-block try-restart trimtab-agent.service trimtab-agent@*.service", calls)
        self.assertIn("--no-block try-restart trimtab-coordinator.service", calls)
        self.assertFalse([call for call in calls if call.startswith(("stop", "disable", "start", "enable"))])

    def use_what_was_there(self):
        """The daemons of this release on what the older one left."""
        with self.daemons():
            wait_until(lambda: "spooled" in self.costs(), "the coming of what the older agent had not sent", 30)
            self.assertEqual(self.costs(), {"stored": 4, "spooled": 2})
            entries = json.loads(self.inside("trimtab", "audit", "--json", "--job", "older-job", *ASKED))["entries"]
            self.assertEqual([(entry["who"], entry["why"]) for entry in entries], [("ana", "before the upgrade")])
            self.assertIn("instance 00000000000000a1", (self.root / "coordinator.log").read_text())
        for older in OLDER_DATABASES:
            self.assertGreater(older.newest(), older.version)
            self.assertEqual(older.versions(self.root / "var/lib/trimtab"), (older.newest(), older.version), older.path)
        said = (self.root / "coordinator.log").read_text()
        for backup in ("costs.db.v1.backup", "coordinator.db.v2.backup"):
            self.assertIn(f"as it was before it is in /var/lib/trimtab/coordinator/{backup}", said)

    def costs(self):
        """Of the older hardware: how often the coordinator knows each to have been measured."""
        request = urllib.request.Request(f"http://{COORDINATOR}/v1/costs?fingerprint={FINGERPRINT_HASH}")
        request.add_header("Authorization", "Bearer " + (self.root / "root/token").read_text().strip())
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {cost["key"]["subject"]: cost["count"] for cost in json.load(answer)["costs"]}

    def upgrade_without_systemd(self):
        (self.root / "systemctl.fails").touch()
        said = self.inside("bash", "-c", "dpkg -i /debs2/*.deb 2>&1")  # the same release once more: an upgrade to its scripts
        for daemon in ("trimtab-agent", "trimtab-coordinator"):
            self.assertIn(f"{daemon}: systemd did not start it anew", said)
        self.assertEqual(self.inside("dpkg", "--audit"), "")

    def remove(self):
        """Still without a systemd that does what it is told."""
        self.systemctl()
        self.inside("apt-get", "remove", "-y", "-qq", *PACKAGES)
        calls = self.systemctl()
        self.assertIn("stop trimtab-agent.service trimtab-agent@*.service", calls)
        self.assertIn("stop trimtab-coordinator.service", calls)
        self.assertFalse((self.root / "usr/bin/trimtab-agent").exists())
        self.assertFalse((self.root / "usr/lib/python3/dist-packages/trimtab").exists())
        self.assertIn("# mine", (self.root / "etc/trimtab/agent.toml").read_text())
        self.assertTrue((self.root / "var/lib/trimtab/coordinator/costs.db").exists())

    def purge(self):
        for path in ("var/lib/trimtab/slurm/ana-n0/agent.db", "var/log/trimtab-slurm.log", "var/log/trimtab-slurm.log.2.gz",
                     "var/log/trimtab-agent-7-n0.log"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).touch()
        self.inside("apt-get", "purge", "-y", "-qq", *PACKAGES)
        # What somebody put there is theirs; the users stay, for files may still be theirs.
        self.assertEqual(sorted(path.name for path in (self.root / "etc/trimtab").iterdir()), ["agent.token", "tokens"])
        shutil.rmtree(self.root / "etc/trimtab")
        left = {path for path in self.paths() - self.before if "/run/" not in path}
        self.assertEqual(left, set())
        for name in PACKAGES:
            self.assertIsNone(self.installed(name))
        self.assertEqual(self.inside("dpkg", "--audit"), "")


if __name__ == "__main__":
    unittest.main()
