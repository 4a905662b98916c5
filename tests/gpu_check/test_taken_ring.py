"""A real process's ring, taken and read by the check itself."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

from harness import LIB

from gpu_check import taken_ring

RANGE = 1
PROGRAM = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.trimtab_range_push.argtypes = [ctypes.c_char_p, ctypes.c_int64]
for number in range(int(sys.argv[2])):
    library.trimtab_range_push(b"step" if number % 2 else b"forward", number)
    library.trimtab_range_pop()
"""


class Taken(unittest.TestCase):
    def setUp(self):
        self.library = LIB / "libtrimtab-inject.so"
        if not self.library.exists():
            self.skipTest(f"{LIB} lacks libtrimtab-inject.so")
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.socket = pathlib.Path(held.name) / "agent.sock"
        self.listener = taken_ring.Listener(self.socket)
        self.addCleanup(self.listener.close)

    def ring_of(self, ranges, slots):
        environment = {"TRIMTAB_SOCKET": str(self.socket), "TRIMTAB_RING_SLOTS": str(slots)}
        program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(self.library), str(ranges)], env=environment)
        ring = self.listener.take(30)
        self.addCleanup(ring.close)
        self.assertEqual(program.wait(30), 0)
        return ring

    def test_records_in_order_with_their_names(self):
        ring = self.ring_of(100, 1024)
        records = ring.drained(RANGE)
        self.assertEqual([name for _, _, _, name in records], ["forward", "step"] * 50)
        self.assertTrue(all(begin <= end for _, begin, end, _ in records))
        self.assertEqual([one[1] for one in records], sorted(one[1] for one in records))
        self.assertEqual(ring.counts[RANGE], 100)
        self.assertEqual(ring.drained(RANGE, taken_ring.KERNEL), [], "they have been read")

    def test_a_ring_that_was_too_small_is_no_evidence(self):
        with self.assertRaisesRegex(ValueError, "found the ring"):
            self.ring_of(5000, 1024).drained(RANGE)

    def test_nobody_comes(self):
        with self.assertRaises(TimeoutError):
            self.listener.take(0.01)


if __name__ == "__main__":
    unittest.main()
