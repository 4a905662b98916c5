"""The Python wheel in bare Debian roots: installed by pip into a virtual environment, used, removed. Needs root, debootstrap, a mirror and
a wheel (scripts/wheel)."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from installation import ROOT

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
TRAINING = """
import trimtab
client = trimtab.connect()
for step in range(5):
    with client.range("step", step):
        pass
    client.step(step)
client.close()
print("trained", client.errors)
"""
# Loads the library as a training process does, and calls it.
LOADED = "import ctypes, glob, sys; ctypes.CDLL(glob.glob(sys.prefix + '/lib/trimtab/libtrimtab-inject.so')[0]); print('loaded')"


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=900, **more)


def wheels():
    return sorted((ROOT / "build" / "wheels").glob("trimtab-*.whl"))


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("debootstrap"), "needs root and debootstrap")
@unittest.skipUnless(wheels(), "needs a wheel: scripts/wheel")
class Wheel(unittest.TestCase):
    def inside(self, root, *words):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"}
        done = run("chroot", root, *words, env=environment)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
        return done.stdout

    def life(self, suite):
        root = pathlib.Path(tempfile.mkdtemp(prefix=f"trimtab-{suite}-"))
        mounted = []
        try:
            done = run("debootstrap", "--variant=minbase", "--include=python3-venv", suite, root, MIRROR)
            self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
            for place, kind in (("proc", "proc"), ("dev/shm", "tmpfs")):
                (root / place).mkdir(parents=True, exist_ok=True)
                self.assertEqual(run("mount", "-t", kind, kind, root / place).returncode, 0)
                mounted.append(root / place)
            for wheel in wheels():
                shutil.copy(wheel, root / "root")
            self.use(root)
        finally:
            for place in mounted:
                run("umount", place)
            self.assertNotIn(str(root), pathlib.Path("/proc/mounts").read_text())
            shutil.rmtree(root)

    def use(self, root):
        self.inside(root, "python3", "-m", "venv", "/root/an environment")
        bin_folder = "/root/an environment/bin"
        self.inside(root, f"{bin_folder}/pip", "install", "--no-index", f"/root/{wheels()[-1].name}")
        self.assertRegex(self.inside(root, f"{bin_folder}/trimtab", "--version"), r"\d+\.\d+")
        for name in ("trimtab-agent", "trimtab-coordinator"):
            self.inside(root, f"{bin_folder}/{name}", "--help")
        self.assertIn("trained 0", self.inside(root, f"{bin_folder}/python3", "-c", TRAINING))
        self.assertIn("loaded", self.inside(root, f"{bin_folder}/python3", "-c", LOADED))
        self.inside(root, "env", "TRIMTAB_RUN_AS_ROOT=true", f"{bin_folder}/trimtab", "up", "--state", "/root/state", "--port", "17421")
        try:
            self.assertIn("127.0.0.1", self.inside(root, f"{bin_folder}/trimtab", "status", "--state", "/root/state"))
        finally:
            self.inside(root, f"{bin_folder}/trimtab", "down", "--state", "/root/state")
        self.inside(root, f"{bin_folder}/pip", "uninstall", "-y", "trimtab")
        left = run("find", root / "root" / "an environment", "-name", "*trimtab*").stdout.split("\n")
        self.assertEqual([path for path in left if path], [])

    def test_debian_12(self):
        self.life("bookworm")

    def test_debian_13(self):
        self.life("trixie")


if __name__ == "__main__":
    unittest.main()
