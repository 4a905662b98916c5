"""How old a machine's glibc may be: which versions of its functions the libraries and programs ask for."""

import re
import subprocess
import unittest

from installation import BUILD, ROOT

INJECTED = ["libtrimtab-inject.so", "libtrimtab-nvtx.so"]
INJECTED_NEEDS = (2, 28)  # Rocky Linux 8
PROGRAMS = ["trimtab", "trimtab-agent", "trimtab-coordinator"]
PROGRAMS_NEED = (2, 34)  # Rocky Linux 9


def newest(path):
    """The newest version of glibc that the file asks for, and a function that does."""
    told = subprocess.run(["objdump", "-T", str(path)], capture_output=True, text=True, check=True).stdout
    asked = re.findall(r"\*UND\*.*GLIBC_([0-9.]+)\)?\s+(\S+)", told)
    return max((tuple(map(int, version.split("."))), name) for version, name in asked)


class Glibc(unittest.TestCase):
    def holds(self, path, limit):
        version, function = newest(path)
        self.assertLessEqual(version, limit, f"{path} asks for {function} of glibc {version}")

    def test_what_a_training_process_loads(self):
        for name in INJECTED:
            path = BUILD / "lib" / name
            if path.exists():
                with self.subTest(name):
                    self.holds(path, INJECTED_NEEDS)
        self.assertTrue((BUILD / "lib" / INJECTED[0]).exists())

    def test_older_systems_find_threads_and_the_loader(self):
        """Before glibc 2.34 they are libraries of their own."""
        needed = subprocess.run(["objdump", "-p", str(BUILD / "lib" / INJECTED[0])], capture_output=True, text=True, check=True).stdout
        for name in ("libpthread.so.0", "libdl.so.2"):
            self.assertIn(f"NEEDED               {name}", needed)

    def test_programs(self):
        for build in (BUILD, ROOT / "build" / "portable"):
            for name in PROGRAMS:
                path = build / "bin" / name
                if path.exists():
                    with self.subTest(path):
                        self.holds(path, PROGRAMS_NEED)
        self.assertTrue((BUILD / "bin" / PROGRAMS[0]).exists())


if __name__ == "__main__":
    unittest.main()
