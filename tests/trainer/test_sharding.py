"""Jobs whose ranks hold shares of operators: what they save, resume from, and lose when one of them dies."""
import os
import signal
import unittest

from fake_agent import FakeAgent
from harness import GLOBAL_BATCH, SINGLE, STEADY, JobTest, plan

SCRIPT = os.path.join("..", "tests", "trainer", "train_plans.py")
SLACK = 16 << 20  # Of an allocator and of what a backend buffers.


def segments(devices, *fields):
    """One stage's document: each segment's operators and whatever else it says."""
    return {"devices": devices, "segments": [dict(operators=[begin, end], **rest) for begin, end, rest in fields]}


def of_stages(microbatch, *stages, **schedule):
    return {**plan([], microbatch, **schedule), "stages": list(stages)}


TENSOR = of_stages(4, segments([0, 1, 2, 3], (0, 3, {"dp": 2, "tp": 2, "sharded": "optimizer", "recompute": [[1, 2]]}),
                               (3, 8, {"dp": 1, "tp": 4, "recompute": [[5, 7]]})))
SHARDED = of_stages(4, segments([3, 1], (0, 5, {"dp": 2, "sharded": "parameters", "recompute": [[0, 2]]})),
                    segments([0, 2], (5, 8, {"tp": 2})))
HYBRID = of_stages(12, segments([1, 0, 3, 2], (0, 8, {"dp": 4, "sharded": "gradients", "sharded_degree": 2})))
SEQUENCES = {"target_knobs": {"sequence_parallel": True}, **of_stages(4, segments(
    [0, 3, 1, 2], (0, 4, {"tp": 2, "cp": 2, "recompute": [[1, 3]]}), (4, 8, {"tp": 2, "cp": 2})))}
ROUNDS = of_stages(2, *(segments(devices, (begin, begin + 2, {"dp": 2, "sharded": "parameters"})) for begin, devices in (
    (0, [1, 3]), (2, [0, 2]), (4, [1, 3]), (6, [0, 2]))), kind="interleaved")


class Sharding(JobTest):
    def setUp(self):
        super().setUp()
        self.config = self.write("steady.toml", STEADY)
        self.snapshots = os.path.join(self.folder, "snapshots")

    def test_any_plan_resumes_from_the_snapshot_of_any_other(self):
        wanted = self.train(SINGLE, 1, 15)
        found = {}
        steps = 0
        for document, world_size in ((TENSOR, 4), (SEQUENCES, 4), (ROUNDS, 4), (SINGLE, 1), (HYBRID, 4)):
            steps += 3
            run = self.start(document, world_size, steps, "--snapshots", self.snapshots, "--snapshot-every", "3").wait()
            self.assertEqual(set(run.codes), {0}, run.errors)
            self.assertEqual(min(run.log()), steps - 3, "the job went on where the one before it ended")
            found.update(run.log())
        self.assert_same_training(wanted, found)

    def test_live_changes_and_a_rank_lost_in_one(self):
        agent = FakeAgent(os.path.join(self.folder, "agent.sock"))
        self.addCleanup(agent.close)
        orders = os.path.join(self.folder, "orders")
        run = self.start(TENSOR, 4, 5000, "--snapshots", self.snapshots, environment={
            "TRIMTAB_SOCKET": agent.path, "TRIMTAB_TEST_ORDERS": orders})
        agent.wait_for_step(2)
        active = agent.change_plan(1, SHARDED, 4)
        self.assertEqual(len({message["step"] for _, message in active}), 1)
        for epoch, document in enumerate((SEQUENCES, HYBRID, ROUNDS), 2):
            agent.change_plan(epoch, document, 4)
        self.write("orders.new", f"2 moving {int(signal.SIGKILL)}")
        os.rename(orders + ".new", orders)
        step = agent.propose(5, TENSOR, 4)
        agent.send({"type": "plan_commit", "epoch": 5, "step": step + 2})
        run.wait()
        for rank in (0, 1, 3):
            self.assertEqual(run.codes[rank], 3)
            self.assertIn(f"rank {rank}: rank 2 is gone", run.errors[rank])
        before = run.log()
        self.assertEqual({line["epoch"] for line in before.values()}, set(range(5)))
        change = max(before) + 1
        self.assertGreaterEqual(change, step + 2)
        after = self.train(SEQUENCES, 4, change + 5, "--snapshots", self.snapshots)
        self.assertEqual(min(after), change, "the change's own snapshot is whole")
        self.assert_same_training(self.train(SINGLE, 1, change + 5), {**before, **after})

    def wide_model(self, vocabulary):
        return self.write("wide.toml", STEADY.replace("vocabulary = 64", f"vocabulary = {vocabulary}")
                          .replace("hidden = 32", "hidden = 128").replace("sequence = 16", "sequence = 8"))

    def test_a_change_takes_the_memory_that_it_is_checked_for(self):
        both, fields = [0, 1], ({"dp": 2}, {"tp": 2}, {"dp": 2, "sharded": "optimizer"},
                                {"dp": 2, "sharded": "parameters"}, {"tp": 2, "tp_consecutive": False}, {"dp": 2})
        documents = [of_stages(GLOBAL_BATCH, segments(both, (0, 8, field))) for field in fields]
        documents += [of_stages(GLOBAL_BATCH, segments(devices[:1], (0, 4, {})), segments(devices[1:], (4, 8, {})))
                      for devices in ([0, 1], [1, 0])]
        run = self.start(documents, 2, 1, "--switch", script=SCRIPT, config=self.wide_model(40000)).wait(120)
        self.assertEqual(run.codes, [0, 0], run.errors)
        greatest = 0
        for line in run.lines():
            for took, foreseen in line["took"]:
                with self.subTest(plan=line["plan"], took=took >> 20, foreseen=foreseen >> 20):
                    self.assertLess(took, foreseen + SLACK)
                    greatest = max(greatest, took)
        self.assertGreater(greatest, 2 * SLACK, "a change of this model is worth measuring")

    def test_shares_take_less_memory(self):
        """Held for real: an operator's states are 75 MiB here, its activations little."""
        config = self.wide_model(70000)
        whole = {"dp": 2}
        peaks, losses = {}, {}
        for name, fields in (("none", whole), ("optimizer", {**whole, "sharded": "optimizer"}), ("tensor", {"tp": 2})):
            log = self.train(of_stages(GLOBAL_BATCH, segments([0, 1], (0, 8, fields))), 2, 2, config=config)
            peaks[name], losses[name] = max(log[1]["peak_bytes"]), log[1]["loss"]
        values = 4 * 2 * 70000 * 128  # Of embedding and head: gradient and two moments are as much each.
        self.assertLess(peaks["optimizer"], peaks["none"] - values // 2)
        self.assertLess(peaks["tensor"], peaks["none"] - 3 * values // 2)
        self.assertLess(max(losses.values()) - min(losses.values()), 1e-3)


if __name__ == "__main__":
    unittest.main()
