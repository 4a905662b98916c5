"""Who is gone, and who only said goodbye; without processes."""
import threading
import unittest

import harness  # Makes the trainer's modules importable.

from liveness import Liveness

assert harness.TRAINER


class Store:
    """The part of a rendezvous store that liveness uses."""

    def __init__(self):
        self._values, self._changed = {}, threading.Condition()

    def set(self, key, value):
        with self._changed:
            self._values[key] = value.encode()
            self._changed.notify_all()

    def get(self, key):
        with self._changed:
            assert self._changed.wait_for(lambda: key in self._values, 10)
            return self._values[key]


class LivenessTest(unittest.TestCase):
    def connect(self, ranks, on_lost=None):
        """Everybody connected; self.lost collects (who was told, who is gone, why)."""
        self.lost, self.told = [], threading.Semaphore(0)
        store = Store()

        def remember(me):
            def note(rank, why):
                self.lost.append((me, rank, why))
                self.told.release()
            return note

        def remember_retreat(me):
            def note(why):
                self.lost.append((me, "retreat", why))
                self.told.release()
            return note

        everyone = [Liveness(rank, ranks, on_lost or remember(rank), remember_retreat(rank)) for rank in range(ranks)]
        threads = [threading.Thread(target=one.start, args=(store, "127.0.0.1", 10)) for one in everyone]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in everyone:
            self.addCleanup(one.close)
        return everyone

    def test_a_failure_is_told_to_all_others_with_its_reason(self):
        everyone = self.connect(3)
        everyone[2].announce("disk\nfull")
        for _ in range(2):
            self.assertTrue(self.told.acquire(timeout=10))
        self.assertEqual(sorted(self.lost), [(0, 2, "disk full"), (1, 2, "disk full")])

    def test_a_retreat_reaches_all_others_once_and_what_follows_it_is_no_loss(self):
        everyone = self.connect(3)
        everyone[1].call_retreat("no\nmemory")
        for _ in range(2):
            self.assertTrue(self.told.acquire(timeout=10))
        everyone[2].call_retreat("no memory here either")
        everyone[1].close()
        everyone[0].await_verdict(0.2)
        self.assertEqual(sorted(self.lost), [(0, "retreat", "no memory"), (2, "retreat", "no memory")])

    def test_goodbye_is_no_loss(self):
        everyone = self.connect(2)
        everyone[1].close()
        everyone[0].await_verdict(0.2)
        self.assertEqual(self.lost, [])

    def test_the_verdict_is_out_only_when_the_loss_was_dealt_with(self):
        entered, release = threading.Event(), threading.Event()

        def deal_with(rank, why):
            entered.set()
            release.wait(10)

        everyone = self.connect(2, deal_with)
        everyone[1].announce("out of memory")
        self.assertTrue(entered.wait(10))
        self.assertFalse(everyone[0].await_verdict(0.05), "the process would have ended without the reason")
        release.set()
        self.assertTrue(everyone[0].await_verdict(10))


if __name__ == "__main__":
    unittest.main()
