"""The Python wheel in bare Debian roots: installed by pip into a virtual environment, used, removed. Needs root, debootstrap, a mirror and
a wheel (scripts/wheel)."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from installation import ROOT, command_line, kill_hard, wait_until
from test_glibc import newest

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
ENVIRONMENT = "/root/an environment"
WORK = "/root/work"
EXIT_CODE = 7
STEPS = 60
# A training process without PyTorch, which tells of itself.
TRAINING = f"""
import sys, time
import trimtab, trimtab.slurm, trimtab.slot
client = trimtab.connect()
for step in range({STEPS}):
    began, cpu = time.perf_counter_ns(), time.process_time_ns()
    with client.range("step", step):
        time.sleep(0.01)
    client.step(step, wall_ns=time.perf_counter_ns() - began, cpu_ns=time.process_time_ns() - cpu, count=4)
client.close()
print("trained", client.errors, client.dropped)
sys.exit({EXIT_CODE})
"""
# Loads the library as a training process does.
LOADED = "import ctypes, glob, sys; [ctypes.CDLL(path) for path in glob.glob(sys.prefix + '/lib/trimtab/lib*.so')]; print('loaded')"
# An empty package stands for PyTorch: its import alone brings the hooks in.
HOOKED = "import sys, torch; print('hooked', 'trimtab.watch.session' in sys.modules)"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, **more)


def wheels():
    return sorted((ROOT / "build" / "wheels").glob("trimtab-*.whl"))


def processes(root):
    """Pids of those that have changed their root to this one."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "root") == str(root):
                yield int(entry.name)


@contextlib.contextmanager
def bare_root(suite):
    """A Debian that has Python and nothing else, with what a booted one has mounted."""
    root = pathlib.Path(tempfile.mkdtemp(prefix=f"trimtab-{suite}-"))
    mounted = []
    try:
        done = run("debootstrap", "--variant=minbase", "--include=python3-venv", suite, root, MIRROR)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        for place, kind in (("proc", "proc"), ("dev/shm", "tmpfs")):
            (root / place).mkdir(parents=True, exist_ok=True)
            assert run("mount", "-t", kind, kind, root / place).returncode == 0
            mounted.append(root / place)
        yield root
    finally:
        for pid in processes(root):
            kill_hard(pid)
        for place in mounted:
            run("umount", place)
        assert str(root) not in pathlib.Path("/proc/mounts").read_text(), f"something is still mounted below {root}"
        shutil.rmtree(root)


@unittest.skipUnless(wheels(), "needs a wheel: scripts/wheel")
class Name(unittest.TestCase):
    def test_it_says_which_glibc_the_programs_need(self):
        named = re.search(r"manylinux_(\d+)_(\d+)_x86_64", wheels()[-1].name)
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheels()[-1]) as wheel:
            programs = [name for name in wheel.namelist() if "/scripts/" in name]
            self.assertEqual(len(programs), 3)
            for name in programs:
                version, function = newest(wheel.extract(name, folder))
                self.assertLessEqual(version, tuple(map(int, named.groups())), f"{name} asks for {function}")

    def test_it_brings_the_licence_of_each_library_that_it_contains(self):
        """Those that the build needs, but for what portable programs leave out (PostgreSQL's) and what measures them."""
        packages = (ROOT / "scripts" / "packages").read_text().split()
        linked = {name.removesuffix("-dev") for name in packages if name.endswith("-dev")} - {"libpq", "libbenchmark"} | {"libstdc++-12"}
        with zipfile.ZipFile(wheels()[-1]) as wheel:
            texts = {pathlib.Path(name).stem if name.endswith(".txt") else name: wheel.read(name).decode("utf-8", "replace")
                     for name in wheel.namelist() if ".dist-info/licenses/" in name}
        self.assertEqual(set(texts), linked)
        for name, text in texts.items():
            self.assertRegex(text.lower(), "license|public domain", name)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
@unittest.skipUnless(wheels(), "needs a wheel: scripts/wheel")
class Wheel(unittest.TestCase):
    def inside(self, *words, code=0, **environment):
        """A command in the root, in the virtual environment once there is one."""
        path = f"{ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        done = run("chroot", self.root, "env", "-C", WORK, *words, env={"PATH": path, "HOME": "/root", "LC_ALL": "C", **environment})
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done

    def life(self, suite, python):
        with bare_root(suite) as self.root:
            self.work = self.root / WORK[1:]
            (self.work / "torch").mkdir(parents=True)
            (self.work / "torch" / "__init__.py").touch()
            (self.work / "train.py").write_text(TRAINING)
            self.assertIn(f"Python {python}.", self.inside("python3", "--version").stdout)
            for step in (self.install, self.programs, self.client, self.watched, self.hooked, self.services, self.remove):
                with self.subTest(step.__name__):
                    step()

    def install(self):
        self.inside("python3", "-m", "venv", ENVIRONMENT)
        self.before = self.files()
        shutil.copy(wheels()[-1], self.work)
        self.inside("pip", "install", "--no-index", f"./{wheels()[-1].name}")

    def files(self):
        """Of the virtual environment, but what Python writes as it runs, and folders that pip leaves empty where others use them, too."""
        place = self.root / ENVIRONMENT[1:]
        found = [path for path in place.rglob("*") if not path.is_dir() or "trimtab" in path.name]
        return {str(path.relative_to(place)) for path in found if "__pycache__" not in path.parts}

    def programs(self):
        self.assertRegex(self.inside("trimtab", "--version").stdout, r"\d+\.\d+")
        for name in ("trimtab-agent", "trimtab-coordinator"):
            self.inside(name, "--help")
        said = self.inside("trimtab", "doctor").stdout
        for part in ("trimtab-coordinator", "trimtab-agent", "recorder library"):
            self.assertRegex(said, rf"(?m)^ok +{part} +{ENVIRONMENT}")
        for page in ("man/man1/trimtab-run.1.gz", "bash-completion/completions/trimtab", "zsh/site-functions/_trimtab"):
            self.assertIn(f"share/{page}", self.files())

    def client(self):
        self.assertIn("trained 0", self.inside("python3", "train.py", code=EXIT_CODE).stdout)
        self.assertIn("loaded", self.inside("python3", "-c", LOADED).stdout)

    def watched(self):
        """One word before a command: it runs, daemons come and go, and there is a card."""
        done = self.inside("trimtab", "run", "--", "python3", "train.py", code=EXIT_CODE)
        self.assertEqual(done.stdout.strip(), "trained 0 0", done.stderr)
        self.assertRegex(done.stderr, r"job train: 1 rank, \d\d steps")
        card = json.loads((self.work / "trimtab-out" / "train" / "card.json").read_text())
        self.assertEqual((card["schema"], card["job"], card["ranks"]), ("trimtab.card/1", "train", 1))
        wait_until(lambda: not self.daemons(), "the daemons' end", 20)

    def hooked(self):
        done = self.inside("trimtab", "run", "--", "python3", "-c", HOOKED)
        self.assertEqual(done.stdout.strip(), "hooked True", done.stderr)
        wait_until(lambda: not self.daemons(), "the daemons' end", 20)

    def daemons(self):
        return [words for words in map(command_line, processes(self.root)) if words and "trimtab" in pathlib.Path(words[0]).name]

    def services(self):
        state = ("--state", "/root/state")
        self.inside("trimtab", "up", *state, "--port", "0", TRIMTAB_RUN_AS_ROOT="true")
        try:
            self.assertRegex(self.inside("trimtab", "status", *state).stdout, r"(?m)^n0 +connected ")
            self.assertEqual(len(self.daemons()), 2)
        finally:
            self.inside("trimtab", "down", *state)
        self.assertEqual(self.daemons(), [])

    def remove(self):
        self.inside("pip", "uninstall", "-y", "trimtab")
        self.assertEqual(self.files() - self.before, set())

    def test_debian_12(self):
        self.life("bookworm", "3.11")

    def test_debian_13(self):
        self.life("trixie", "3.13")


if __name__ == "__main__":
    unittest.main()
