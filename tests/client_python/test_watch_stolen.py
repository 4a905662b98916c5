"""Where a thread's time goes, by made clocks, and what other processes take of it."""
import os
import sys
import tempfile
import threading
import unittest
from random import Random

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "client", "python"))
from trimtab.watch.account import (ASIDE, BACKWARD, COMMUNICATION, DATA, FORWARD, OPTIMIZER, Account,  # noqa: E402
                                   thread_stolen)
from trimtab.watch.session import NoRanges  # noqa: E402


class Clocks:
    def __init__(self):
        self.now = self.taken = 0

    def run(self, ns, stolen=0):
        self.now += ns
        self.taken += stolen


def random_depth(account, act):
    """The innermost part, or one around it with all inside."""
    return max(1, len(account.parts) - act % 2)


class Stolen(unittest.TestCase):
    def setUp(self):
        self.clocks = Clocks()
        self.account = Account(NoRanges(), clock=lambda: self.clocks.now, stolen=lambda: lambda: self.clocks.taken)
        self.account.restart()

    def during(self, part, ns, stolen):
        depth = self.account.enter(part)
        self.clocks.run(ns, stolen)
        self.account.leave(depth)

    def take(self):
        wall, parts = self.account.take(self.account.now())
        return wall, parts, self.account.take_stolen()

    def test_it_is_that_of_the_ranks_own_work(self):
        self.during(DATA, 100, 10)
        self.during(FORWARD, 200, 20)
        depth = self.account.enter(BACKWARD)
        self.clocks.run(300, 30)
        self.during(COMMUNICATION, 400, 40)
        self.account.leave(depth)
        self.during(OPTIMIZER, 50, 5)
        self.during(ASIDE, 60, 6)
        self.clocks.run(70, 7)  # In no part.
        wall, parts, stolen = self.take()
        self.assertEqual((wall, parts[BACKWARD], parts[COMMUNICATION]), (1180, 300, 400))
        self.assertEqual(stolen, 20 + 30 + 5 + 7)

    def test_the_clock_is_read_where_a_part_that_is_not_told_begins_or_ends(self):
        reads = []
        account = Account(NoRanges(), clock=lambda: 0, stolen=lambda: lambda: reads.append(1) or 0)
        account.restart()
        reads.clear()
        for part in (DATA, FORWARD, BACKWARD, OPTIMIZER):
            account.leave(account.enter(part))
        self.assertEqual(len(reads), 2)
        account.now()
        self.assertEqual(len(reads), 3)

    def test_what_is_told_is_what_reading_at_each_change_would_tell(self):
        class EachTime(Account):
            def _count(self, now, following, then=None):
                super()._count(now, following)

        random = Random(5)
        for _ in range(300):
            clocks = Clocks()
            both = [kind(NoRanges(), clock=lambda: clocks.now, stolen=lambda: lambda: clocks.taken)
                    for kind in (Account, EachTime)]
            for account in both:
                account.restart()
            for _ in range(60):
                clocks.run(random.randrange(9), random.randrange(9))
                part, act = random.choice((DATA, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, ASIDE)), random.randrange(10)
                told = []
                for account in both:
                    if act < 4:
                        account.enter(part)
                    elif act < 8:
                        account.leave(random_depth(account, act))
                    elif act == 8:
                        account.evaluates()
                        account.enter(ASIDE)
                    else:
                        told.append((account.take(account.now()), account.take_stolen()))
                self.assertEqual(told[:1], told[1:])

    def test_a_step_has_its_own(self):
        self.during(FORWARD, 200, 20)
        self.take()
        self.during(FORWARD, 200, 3)
        self.assertEqual(self.take()[2], 3)

    def test_what_came_before_training_is_no_part_of_it(self):
        self.clocks.run(1000, 500)
        self.account.restart()
        self.during(FORWARD, 200, 20)
        self.assertEqual(self.take()[2], 20)

    def test_where_the_kernel_does_not_say_nothing_is_told(self):
        account = Account(NoRanges(), clock=lambda: self.clocks.now, stolen=lambda: None)
        account.restart()
        account.leave(account.enter(FORWARD))
        account.now()
        self.assertIsNone(account.take_stolen())


@unittest.skipUnless(os.path.exists("/proc/thread-self/schedstat"), "needs /proc/thread-self/schedstat")
class OfTheKernel(unittest.TestCase):
    def test_a_number_that_the_job_has_taken_tells_nothing_and_keeps_what_it_has(self):
        with tempfile.TemporaryFile() as file:
            file.write(b"12 34 the job's own, of some length\n" * 3)
            file.flush()
            reading, writing = os.pipe()
            for taken in (file.fileno(), reading):
                clocks = []
                account = Account(NoRanges(), stolen=lambda: clocks.append(thread_stolen()) or clocks[-1])
                account.restart()
                account.now()
                self.assertIsNotNone(account.take_stolen())
                number = clocks[-1]._descriptor
                os.dup2(taken, number)
                account.now()
                self.assertIsNone(account.take_stolen())
                os.close(number)
            self.assertEqual(file.tell(), 108)
            os.close(reading), os.close(writing)

    def test_a_thread_that_shares_its_cpu_with_another_loses_about_half(self):
        """Two processes that compute on one CPU: what each lacks is told, nearly to the whole."""
        cpu = min(os.sched_getaffinity(0))
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, {cpu})
            while True:
                pass
        told = {}

        def compute():
            import time
            os.sched_setaffinity(0, {cpu})
            stolen = thread_stolen()
            begin, before, own = time.perf_counter_ns(), stolen(), time.thread_time_ns()
            while time.perf_counter_ns() - begin < 300_000_000:
                pass
            told.update(wall=time.perf_counter_ns() - begin, stolen=stolen() - before, own=time.thread_time_ns() - own)

        try:
            thread = threading.Thread(target=compute)
            thread.start()
            thread.join()
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
        self.assertGreater(told["stolen"], 0.2 * told["wall"])
        self.assertAlmostEqual((told["stolen"] + told["own"]) / told["wall"], 1, delta=0.1)


if __name__ == "__main__":
    unittest.main()
