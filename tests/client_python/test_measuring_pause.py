"""A pause in which ranks measure again: its bound, what they agree on, and what the client tells and hears."""
import os
import shutil
import tempfile
import threading
import unittest

from test_client import Agent
from trimtab.client import Client
from trimtab.measuring_again import CannotRun, agreed, run

MS = 1_000_000


class Ranks:
    """Some ranks in threads of their own, whose clocks stand still but for what their items take."""

    def __init__(self, count):
        self.clocks = [0] * count
        self.calls = [0] * count
        self._barrier = threading.Barrier(count)
        self._numbers = [None] * count

    def run(self, request, takes):
        """takes(rank, item): nanoseconds of a call, None, or an exception. The answers of all ranks, in order."""
        answers = [None] * len(self.clocks)

        def rank_runs(rank):
            answers[rank] = run(request, lambda item: self._once(rank, takes(rank, item)),
                                lambda numbers: self._most(rank, numbers), clock=lambda: self.clocks[rank])

        threads = [threading.Thread(target=rank_runs, args=(rank,)) for rank in range(len(self.clocks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return answers

    def _once(self, rank, takes):
        if isinstance(takes, Exception):
            raise takes
        if takes is None:
            return None

        def once():
            self.calls[rank] += 1
            if callable(takes):
                return takes(self.calls[rank])
            self.clocks[rank] += takes
            return (takes,)

        return once

    def _most(self, rank, numbers):
        self._numbers[rank] = numbers
        self._barrier.wait(20)
        found = [max(column) for column in zip(*self._numbers)]
        self._barrier.wait(20)
        self.clocks[rank] = max(self.clocks)  # who came last is waited for
        self._barrier.wait(20)
        return found


def request(*expected_ms, bound_ms=100):
    return {"bound_ms": bound_ms, "items": [{"expected_ns": ms * MS} for ms in expected_ms]}


class Pause(unittest.TestCase):
    def test_each_item_is_measured_a_few_times_and_short_ones_in_one_value(self):
        ranks = Ranks(2)
        answers = ranks.run(request(10, 1), lambda rank, item: item["expected_ns"])
        for answer in answers:
            self.assertEqual({one["item"]: one["values"] for one in answer["items"]},
                             {0: [[10 * MS] * 3], 1: [[MS] * 3]})
            self.assertEqual(answer["took_ns"], (10 + 3 * 10 + 1 + 3 * 2) * MS)
        self.assertEqual(ranks.calls, [4 + 7] * 2)

    def test_what_is_slower_than_expected_leaves_no_time_for_the_longer_ones(self):
        ranks = Ranks(2)  # 10 times as long on one of them
        answers = ranks.run(request(1, 20), lambda rank, item: item["expected_ns"] * (10 if rank else 1))
        for answer in answers:
            self.assertLessEqual(answer["took_ns"], 100 * MS)
            self.assertIn("of the pause were left", answer["items"][1]["error"])
        self.assertGreater(len(answers[0]["items"][0]["values"][0]), 0)

    def test_a_call_beyond_all_expectation_is_the_last_one(self):
        answers = Ranks(2).run(request(1, 2), lambda rank, item: 500 * item["expected_ns"])
        for answer in answers:
            self.assertEqual(answer["took_ns"], 500 * MS, "that call cannot be taken back")
            self.assertEqual(answer["items"][0]["values"], [[500 * MS]])
            self.assertIn("0 ms of the pause were left", answer["items"][1]["error"])

    def test_an_item_that_one_rank_cannot_run_is_left_out_by_all(self):
        def takes(rank, item):
            return CannotRun("no such group") if rank == 1 and item["expected_ns"] == MS else MS

        first, second = Ranks(2).run(request(1, 2), takes)
        self.assertEqual(first["items"][0]["error"], "another rank cannot run it")
        self.assertEqual(second["items"][0]["error"], "no such group")
        self.assertEqual([len(one["items"][1]["values"][0]) for one in (first, second)], [3, 3])

    def test_what_an_item_raises_is_its_answer_and_all_ranks_go_on(self):
        def falls(call):
            if call == fatal:
                raise RuntimeError("out of memory")
            return (0,)

        for fatal in (1, 2, 5):  # In the first call, in the first value and in the second.
            with self.subTest(call=fatal):
                ranks = Ranks(2)
                first, second = ranks.run(request(1, 2), lambda rank, item: falls if rank == 1 and item["expected_ns"] == MS else MS)
                self.assertEqual(first["items"][0], {"item": 0, "error": "another rank could not run it"})
                self.assertEqual(second["items"][0], {"item": 0, "error": "out of memory"})
                self.assertEqual([len(one["items"][1]["values"][0]) for one in (first, second)], [3, 3])

    def test_a_rank_outside_of_a_group_keeps_step_and_tells_no_value(self):
        first, second = Ranks(2).run(request(5), lambda rank, item: None if rank else 5 * MS)
        self.assertEqual(first["items"][0]["values"], [[5 * MS] * 3])
        self.assertEqual(second["items"][0]["values"], [])

    def test_sums_tell_whether_all_ranks_offer_the_same_number(self):
        def of(*offers):
            return agreed(sum(offers), sum(one * one for one in offers), len(offers))

        self.assertEqual([of(3), of(3, 3, 3), of(0, 0), of(0, 3), of(1, 2, 3), of(2, 2, 3)], [3, 3, 0, 0, 0, 0])


class OverTheSocket(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="trimtab-pause-")
        self.addCleanup(shutil.rmtree, folder)
        self.switch = os.path.join(folder, "kill-switch")
        self.agent = Agent(os.path.join(folder, "agent.sock"))
        self.addCleanup(self._close)
        self.client = Client({"TRIMTAB_SOCKET": self.agent.path, "TRIMTAB_RANK": "0", "TRIMTAB_JOB": "job",
                              "TRIMTAB_KILL_SWITCH": self.switch}, measures=True)
        self.client.begin(5)
        self.hello = self.agent.accept()

    def _close(self):
        self.client.close()
        self.agent.connection.close()
        self.agent.listener.close()

    def hear(self, **message):
        self.agent.say(**message)
        self.client.report("served", 1)

    def test_a_request_is_offered_until_it_is_taken_and_answered(self):
        self.assertIs(self.hello["measures"], True)
        self.assertEqual(self.client.measuring, 0)
        self.hear(type="measure", number=4, bound_ms=500, items=[{"kind": "process", "expected_ns": 3}])
        self.assertEqual(self.client.measuring, 4)
        self.assertEqual(self.client.take_measuring(),
                         {"number": 4, "bound_ms": 500.0, "items": [{"kind": "process", "expected_ns": 3}]})
        self.assertEqual(self.client.measuring, 0)
        self.client.measured(4, 9, {"took_ns": 7, "items": []})
        told = self.agent.read()
        while told["type"] == "report":
            told = self.agent.read()
        self.assertEqual(told, {"type": "measured", "number": 4, "step": 9, "took_ns": 7, "items": []})

    def test_a_cancelled_one_is_not_offered_nor_one_under_the_kill_switch_nor_a_malformed_one(self):
        self.hear(type="measure", number=4, bound_ms=500, items=[])
        self.hear(type="measure_cancel", number=4)
        self.assertEqual(self.client.measuring, 0)
        self.hear(type="measure", number=5, bound_ms=500, items=[])
        with open(self.switch, "w", encoding="ascii"):
            self.assertEqual(self.client.measuring, 0)
        os.unlink(self.switch)
        self.assertEqual(self.client.measuring, 5)
        self.hear(type="measure_cancel", number=5)
        self.hear(type="measure", number=6, items=[{}])
        self.assertEqual((self.client.measuring, self.client.errors), (0, 1))


if __name__ == "__main__":
    unittest.main()
