"""What was built is hardened: programs, libraries that training processes load, and our code inside them (cmake/Hardening.cmake)."""

import platform
import re
import subprocess
import unittest

from installation import BUILD

PROGRAMS = ["trimtab", "trimtab-agent", "trimtab-coordinator"]
LIBRARIES = ["libtrimtab-inject.so", "libtrimtab-nvtx.so", "libnccl-profiler-trimtab.so", "libnccl-tuner-trimtab.so"]
MARKS = {"x86_64": ("IBT", "SHSTK"), "aarch64": ("BTI", "PAC")}  # of an object whose jumps are protected


def told(*options):
    return subprocess.run(["readelf", "-W", *map(str, options)], capture_output=True, text=True, check=True).stdout


def built():
    return [path for path in [*(BUILD / "bin" / name for name in PROGRAMS), *(BUILD / "lib" / name for name in LIBRARIES)] if path.exists()]


class Hardening(unittest.TestCase):
    def test_programs_may_be_loaded_anywhere(self):
        for name in PROGRAMS:
            with self.subTest(name):
                self.assertRegex(told("-h", BUILD / "bin" / name), r"Type:\s+DYN")
                self.assertRegex(told("-d", BUILD / "bin" / name), r"FLAGS_1.*\bPIE\b")

    def test_no_table_of_functions_can_be_written(self):
        for path in built():
            with self.subTest(path):
                self.assertRegex(told("-d", path), r"FLAGS_1.*\bNOW\b")
                self.assertIn("GNU_RELRO", told("-l", path))

    def test_no_stack_runs_as_code(self):
        for path in built():
            with self.subTest(path):
                self.assertRegex(told("-l", path), r"GNU_STACK\s+(0x\S+\s+){5}RW ")

    def test_overwritten_frames_and_copies_beyond_bounds_end_the_process(self):
        for name in PROGRAMS:
            with self.subTest(name):
                symbols = told("-s", "--dyn-syms", BUILD / "bin" / name)
                self.assertIn("__stack_chk_fail", symbols)
                self.assertRegex(symbols, r"__(memcpy|memmove|read|recv|snprintf|vsnprintf|memset|pread64|poll)_chk")

    def test_jumps_of_our_code_are_protected(self):
        """Of objects alone: a program is marked only where the C library's are, too."""
        marks = MARKS.get(platform.machine())
        if marks is None:
            self.skipTest(f"no such protection is known of {platform.machine()}")
        for archive in sorted(BUILD.glob("*/lib*.a")):
            with self.subTest(archive):
                objects = re.split(r"^File: ", told("-n", archive), flags=re.MULTILINE)[1:]
                self.assertTrue(objects)
                for text in objects:
                    for mark in marks:
                        self.assertIn(mark, text, text.splitlines()[0])


if __name__ == "__main__":
    unittest.main()
