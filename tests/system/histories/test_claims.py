"""What judges histories, on made-up ones: each claim is broken by one of them, and by none of the others."""
import unittest

import orders
import plans
from history import History

JOB = {"where": "c0", "job": "j"}
STATE = {"run": 1, "frozen": False, "active": True, "phase": "training"}


class Made:
    """A history in which a job was handed in as run 1, is logged and stored, and trains on."""

    def __init__(self):
        self.history, self.now, self.entries = History(), 0.0, 0
        self.did("submit", status=201, was_running=False, what="hand in a job to tune, mode observe", **STATE)
        self.final = {**STATE, "incumbent": "a", "initial": "a"}
        self.rows = [1]

    def add(self, kind, **facts):
        self.now += 1
        return self.history.add(kind, 7, at=self.now, **facts)

    def entry(self, what, why, who="client"):
        self.entries += 1
        return self.add("entry", **JOB, run=1, entry=self.entries, who=who, what=what, why=why)

    def asked(self, asks, **facts):
        return self.history.invoked(7, asks, at=self._tick(), **{**JOB, **facts})

    def _tick(self):
        self.now += 1
        return self.now

    def did(self, asks, outcome="ok", logged=1, what=None, **answer):
        """An operation with `logged` entries."""
        name = self.asked(asks)
        for _ in range(logged):
            self.entry(what or orders.WORDS.get(asks, asks), name)
        self.add(outcome, id=name, **answer)
        return name

    def refused(self, asks, status=409, logged=True):
        name = self.asked(asks)
        if logged:
            self.entry(orders.WORDS[asks], name)
            self.entry(orders.REFUSED[asks], "it cannot be", who="coordinator")
        self.add("refused", id=name, status=status)

    def records(self):
        for run in self.rows:
            self.add("row", **JOB, run=run)
        self.add("final", **JOB, **self.final)
        return self.history.records


def texts(records):
    return [violation.text for violation in (*orders.violations(records), *plans.violations(records))]


class OrdersTest(unittest.TestCase):
    def setUp(self):
        self.made = Made()

    def broken(self, words, claim=None):
        found = [*orders.violations(self.made.records())]
        self.assertEqual(len(found), 1, [str(one) for one in found])
        self.assertIn(words, found[0].text)
        self.assertEqual(found[0].seeds, [7])
        if claim:
            self.assertEqual(found[0].claim, claim)
        return found[0]

    def test_what_is_right_breaks_nothing(self):
        made = self.made
        made.did("freeze", **{**STATE, "frozen": True}, status=200)
        made.did("read", logged=0, **{**STATE, "frozen": True}, status=200)
        made.refused("approve")
        made.did("unfreeze", "unknown", logged=0)
        made.did("unfreeze", "unknown")
        made.did("stop", "failed", logged=0)
        made.did("submit", status=200, was_running=True, what="hand in a job to tune, mode observe", **STATE)
        self.assertEqual(texts(made.records()), [])

    def test_an_order_that_is_not_in_the_log(self):
        self.made.did("unfreeze", logged=0, status=200, **STATE)
        self.broken("was acknowledged, and the log does not have it", orders.STORED)

    def test_an_order_that_is_twice_in_the_log(self):
        self.made.did("unfreeze", logged=2, status=200, **STATE)
        self.broken("was ordered once, and is 2 times in the log", orders.STORED)

    def test_an_order_that_nobody_gave(self):
        self.made.did("unfreeze", "failed")
        self.broken("was never handed in", orders.STORED)

    def test_entries_in_another_order_than_orders(self):
        self.made.did("unfreeze", status=200, **STATE)
        first = self.made.did("unfreeze", logged=0, status=200, **STATE)
        self.made.did("unfreeze", status=200, **STATE)
        self.made.entry(orders.WORDS["unfreeze"], first)
        self.broken("stands before what was acknowledged before it", orders.STORED)

    def test_a_job_that_is_not_stored(self):
        self.made.rows = []
        self.broken("which is not stored", orders.STORED)

    def test_a_job_that_is_stored_twice(self):
        self.made.rows = [1, 2]
        self.broken("handed in 1 times at most and is stored 2 times", orders.STORED)

    def test_a_job_that_may_have_been_stored_by_an_unknown_answer(self):
        self.made.did("submit", "unknown", what="hand in a job to tune, mode observe")
        self.made.rows = [1, 2]
        self.assertEqual(texts(self.made.records()), [])

    def test_a_job_that_was_refused_and_is_stored(self):
        self.made.did("submit", "refused", logged=0, status=503)
        self.made.rows = [1, 2]
        self.broken("is stored 2 times", orders.OBEYED)

    def test_a_job_that_was_new_twice(self):
        self.made.did("submit", status=201, was_running=False, what="hand in a job to tune, mode observe", **STATE)
        self.broken("was acknowledged as new twice", orders.STORED)

    def test_a_job_that_is_forgotten(self):
        self.made.did("read", "refused", logged=0, status=404)
        self.broken("was acknowledged, and is not known", orders.STORED)

    def test_a_job_that_is_over_and_goes_on(self):
        self.made.did("read", logged=0, status=200, **{**STATE, "active": False, "phase": "finished"})
        self.made.did("read", logged=0, status=200, **STATE)
        self.broken("was over, and goes on", orders.STORED)

    def test_costs(self):
        for spared, agent, stored, words in ((True, 8, 9, "count 8 times at their agent and 9"),
                                             (True, 8, 7, "count 8 times at their agent and 7"),
                                             (True, 7, 7, "were recorded 8 times and count 7"),
                                             (False, 9, 9, "were recorded 8 times and count 9")):
            with self.subTest(words):
                self.made = Made()
                name = self.made.asked("costs", name="r", count=10)
                self.made.add("ok", id=name)
                self.made.add("counted", name="r", agent=agent, stored=stored, spared=spared)
                self.broken(words, orders.STORED)

    def test_an_agent_that_was_killed_may_have_counted_less(self):
        name = self.made.asked("costs", name="r", count=10)
        self.made.add("ok", id=name)
        self.made.add("counted", name="r", agent=3, stored=3, spared=False)
        self.assertEqual(texts(self.made.records()), [])

    def test_batches(self):
        for outcome, stored, holds in (("ok", 1, True), ("ok", 0, False), ("ok", 2, False), ("unknown", 1, True), ("unknown", 2, False),
                                       ("refused", 1, False)):
            with self.subTest(outcome=outcome, stored=stored):
                self.made = Made()
                name = self.made.asked("batch", name="r")
                self.made.add(outcome, id=name, status=0)
                self.made.add("counted", name="r", agent=None, stored=stored)
                if holds:
                    self.assertEqual(texts(self.made.records()), [])
                else:
                    self.broken(f"counts {stored} times", orders.STORED)

    def test_an_order_that_was_acknowledged_and_refused(self):
        self.made.did("unfreeze", status=200, **STATE)
        self.made.entry(orders.REFUSED["unfreeze"], "it cannot be", who="coordinator")
        self.broken("the log says that it was refused", orders.OBEYED)

    def test_an_order_that_was_refused_and_the_log_does_not_say_so(self):
        self.made.did("unfreeze", "refused", status=409)
        self.broken("was refused, and the log does not say so", orders.OBEYED)

    def test_an_order_that_was_refused_and_carried_out(self):
        self.made.refused("freeze", status=503, logged=False)
        self.made.final["frozen"] = True
        self.broken("an order that was refused was carried out", orders.OBEYED)

    def test_an_order_that_was_acknowledged_and_not_carried_out(self):
        self.made.did("freeze", status=200, **{**STATE, "frozen": True})
        self.made.did("read", logged=0, status=200, **STATE)
        self.made.final["frozen"] = True
        self.broken("an order that was acknowledged was not carried out", orders.OBEYED)

    def test_an_order_that_was_forgotten_later(self):
        self.made.did("freeze", status=200, **{**STATE, "frozen": True})
        self.broken("is not frozen", orders.OBEYED)

    def test_orders_at_once_may_come_in_any_order(self):
        made = self.made
        freeze, unfreeze = made.asked("freeze"), made.asked("unfreeze")
        made.entry(orders.WORDS["unfreeze"], unfreeze)
        made.entry(orders.WORDS["freeze"], freeze)
        made.add("ok", id=freeze, status=200, **{**STATE, "frozen": True})
        made.add("ok", id=unfreeze, status=200, **STATE)
        made.final["frozen"] = True
        self.assertEqual(texts(made.records()), [])

    def test_a_job_that_was_to_be_stopped(self):
        self.made.did("stop", status=200, **STATE)
        self.broken("was to be stopped, and goes on", orders.OBEYED)

    def test_a_rank_of_a_job_that_was_stopped(self):
        self.made.did("stop", status=200, **STATE)
        self.made.final |= {"active": False, "phase": "stopped"}
        self.made.add("lives", job="j", rank=0, pid=17)
        self.broken("a rank of it still runs", orders.OBEYED)

    def test_a_job_that_nobody_stopped(self):
        self.made.refused("stop")
        self.made.final |= {"active": False, "phase": "stopped"}
        self.broken("nobody's order to stop it was taken", orders.OBEYED)

    def test_the_plan_that_a_job_began_with(self):
        self.made.did("own-plan", status=200, **{**STATE, "frozen": True})
        self.made.final |= {"frozen": True, "incumbent": "b"}
        self.broken("keeps another", orders.OBEYED)


class PlansTest(unittest.TestCase):
    RANK = {"job": "j", "variant": "", "launch": 1, "rank": 0, "pid": 10, "node": "n0"}

    def setUp(self):
        self.made = Made()

    def told(self, epoch, plan, **facts):
        self.made.add("told", **{**self.RANK, "step": 0, "incumbent": True, "asked": self.made.now + 0.5, **facts}, epoch=epoch, plan=plan)

    def step(self, step, epoch, **facts):
        self.made.add("step", **{**self.RANK, **facts}, step=step, epoch=epoch)

    def broken(self, words):
        found = [*plans.violations(self.made.records())]
        self.assertEqual(len(found), 1, [str(one) for one in found])
        self.assertIn(words, found[0].text)
        self.assertEqual(found[0].claim, plans.ONE_PLAN)

    def test_what_is_right_breaks_nothing(self):
        for rank in (0, 1):
            self.told(0, "a", rank=rank, pid=10 + rank)
        for rank in (0, 1):
            self.step(0, 0, rank=rank)
        for rank in (0, 1):
            self.told(2, "b", rank=rank, pid=10 + rank, incumbent=False)
            self.step(1, 2, rank=rank)
        self.told(3, "a", launch=2, pid=20)
        self.step(1, 3, launch=2)
        self.assertEqual(texts(self.made.records()), [])

    def test_an_epoch_that_is_two_plans(self):
        self.told(1, "a")
        self.told(1, "b", rank=1, pid=11)
        self.broken("epoch 1 is two plans")

    def test_ranks_that_make_a_step_under_two_plans(self):
        self.step(4, 1)
        self.step(4, 2, rank=1)
        self.broken("made step 4 of launch 1 under two plans")

    def test_two_processes_of_a_rank(self):
        self.told(1, "a")
        self.told(1, "a", pid=12)
        self.broken("two processes were rank 0 of launch 1")

    def test_two_launches_at_once(self):
        self.step(4, 1)
        self.step(4, 2, launch=2)
        self.step(5, 1)
        self.broken("launch 1 trains beside launch 2")

    def test_a_trials_plan_under_a_kill_switch(self):
        throw = self.made.asked("throw", where="n0")
        self.made.add("ok", id=throw)
        self.told(2, "b", incumbent=False)
        release = self.made.asked("release", where="n0")
        self.made.add("ok", id=release)
        self.told(3, "c", incumbent=False)
        self.broken("although the kill switch of node n0 was thrown")


if __name__ == "__main__":
    unittest.main()
