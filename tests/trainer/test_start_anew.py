"""A program that begins anew, from whatever threads want it at once."""
import pathlib
import subprocess
import sys
import unittest

TRAINER = pathlib.Path(__file__).resolve().parents[2] / "trainer"
TIMES = 40  # Without the lock about one in seven failed.
PROGRAM = f"""
import os, sys, threading
sys.path.insert(0, {str(TRAINER)!r})
sys.setswitchinterval(1e-7)
import retreat
taken = retreat.taken()
if taken is not None:
    print(taken.epoch, taken.failed_epoch, taken.reason)
    sys.exit()
opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
ready = threading.Barrier(4)
def leave():
    ready.wait()
    retreat.start_anew(retreat.Retreat({{}}, 1, 2, "loss", "why"))
threads = [threading.Thread(target=leave) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


class StartAnew(unittest.TestCase):
    def test_threads_that_want_it_at_once_hand_over_one_whole_retreat(self):
        for _ in range(TIMES):
            done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (0, "1 2 loss\n"), done.stderr)


if __name__ == "__main__":
    unittest.main()
