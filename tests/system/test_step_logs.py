"""The checks of faulted_switches.py notice what they are there for."""
import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

from faulted_switches import possible
from plan_messages import Frames
from rank_network import WAYS
from step_logs import StepLogs
from switch_faults import BETWEEN_RANKS, KINDS, MESSAGES, POINTS, Fault

BOUND = 30


def line(step, plan="a", launch=1, attempt=0, epoch=1, loss=2.0, samples=None, tp=1):
    return {"step": step, "plan": plan, "tensor_parallel": tp, "epoch": epoch, "launch": str(launch), "attempt": attempt,
            "loss": loss, "samples": samples or f"s{step}"}


class Checks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.paths = [pathlib.Path(folder.name) / f"log.{rank}" for rank in range(2)]
        self.logs = StepLogs(self.paths, BOUND)

    def write(self, rank, *lines):
        with open(self.paths[rank], "a", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in lines)

    def both(self, *lines):
        self.write(0, *lines)
        self.write(1, *lines)

    def problems(self):
        self.logs.read()
        return " ".join(self.logs.problems)

    def test_steps_that_follow_each_other_over_launches_are_well(self):
        self.both(*map(line, range(40)))
        self.assertEqual(self.problems(), "")
        self.write(0, line(40))  # The other rank was killed before it could log.
        self.both(*(line(step, "b", launch=2, epoch=3) for step in range(20, 50)))
        self.both(*(line(step, launch=2, attempt=1, epoch=4) for step in range(50, 60)))
        self.assertEqual(self.problems(), "")
        self.assertEqual((self.logs.most_replayed, self.logs.replayed, self.logs.changes), (21, 21, 2))

    def test_changes_are_counted_once_and_those_of_split_operators_apart(self):
        self.both(line(0), line(1, "b", tp=2), line(2, "c", tp=2), line(3), line(4, "d"))
        self.assertEqual(self.problems(), "")
        self.assertEqual((self.logs.changes, self.logs.split_changes), (4, 3))

    def test_a_step_that_is_left_out(self):
        self.both(line(0), line(2))
        self.assertIn("step 2 follows step 0", self.problems())

    def test_a_launch_that_leaves_a_step_out(self):
        self.both(line(0))
        self.both(line(2, launch=2))
        self.assertIn("step 1 was due: a step is lost", self.problems())

    def test_a_launch_that_begins_too_early(self):
        self.both(*map(line, range(40)))
        self.both(line(9, launch=2))
        self.assertIn("is 31 steps before 40", self.problems())

    def test_ranks_that_begin_apart(self):
        self.both(line(0))
        self.write(0, line(1, launch=2))
        self.write(1, line(0, launch=2))
        self.assertIn("another rank began at", self.problems())

    def test_ranks_on_two_plans(self):
        self.write(0, line(0, plan="a"))
        self.write(1, line(0, plan="b"))
        self.assertIn("has plan b, on another rank a", self.problems())

    def test_other_samples_the_second_time(self):
        self.both(line(0), line(1))
        self.both(line(1, launch=2, samples="other"))
        self.assertIn("saw samples other, and s1 the first time", self.problems())

    def test_another_loss_the_second_time(self):
        self.both(line(0), line(1))
        self.both(line(1, launch=2, loss=2.1))
        self.assertIn("has loss 2.1, and 2.0 the first time", self.problems())

    def test_a_line_that_is_not_whole_yet_is_read_later(self):
        self.write(0, line(0))
        with open(self.paths[0], "a", encoding="utf-8") as file:
            file.write('{"step": 1, ')
        self.assertEqual(self.problems(), "")
        self.assertEqual(self.logs.lines, 1)


class Messages(unittest.TestCase):
    def test_a_plan_change_is_known_by_its_frames_however_they_arrive(self):
        rank_event = bytes([6 << 3 | 2, 7, 1 << 3 | 2, 1, 0x61, 9 << 3 | 2, 2, 8, 5])
        key = bytes([1, 2, 3, 4])
        masked = bytes(byte ^ key[i % 4] for i, byte in enumerate(rank_event))
        stream = b"GET / HTTP/1.1\r\n\r\n" + bytes([0x82, 0x80 | len(masked)]) + key + masked
        for size in (1, 5, len(stream)):
            frames = Frames(from_agent=True)
            pieces = [piece for at in range(0, len(stream), size) for piece in frames.feed(stream[at : at + size])]
            self.assertEqual(b"".join(data for data, _ in pieces), stream)
            self.assertEqual([kind for _, kind in pieces], [None, "active"])

    def test_long_frames_of_the_coordinator(self):
        commit = bytes([6 << 3 | 2, 200, 1]) + bytes(200)
        frames = Frames(from_agent=False)
        self.assertEqual([kind for _, kind in frames.feed(b"\r\n\r\n" + bytes([0x82, 126, 0, len(commit)]) + commit)],
                         [None, "commit"])


class Faults(unittest.TestCase):
    def test_a_fault_is_its_seeds_and_numbers_alone_and_all_kinds_come(self):
        drawn = [Fault.drawn(7, number, 2, KINDS) for number in range(400)]
        self.assertEqual(drawn[41], Fault.drawn(7, 41, 2, KINDS))
        self.assertEqual({fault.kind for fault in drawn}, set(KINDS))

    def test_ranks_lose_each_other_at_messages_and_while_the_state_is_moved_in_every_way(self):
        for kind in BETWEEN_RANKS:
            drawn = [Fault.drawn(7, number, 2, [kind]) for number in range(400)]
            self.assertEqual({fault.moment for fault in drawn}, {*MESSAGES, *POINTS})
            self.assertEqual({fault.ways for fault in drawn}, set(WAYS))

    def test_what_cannot_be_done_here_is_left_out_and_said(self):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            kinds = possible(KINDS, types.SimpleNamespace(disk=None, network=None))
        self.assertEqual(set(KINDS) - set(kinds), {"full_disk", *BETWEEN_RANKS})
        self.assertIn("no full disks", said.getvalue())
        self.assertIn("no cuts between ranks", said.getvalue())


if __name__ == "__main__":
    unittest.main()
