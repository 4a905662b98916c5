"""What waits for what among a GPU's streams when parameters, gradients and hidden states go to the host and come back,
with streams that only remember who was told to wait for whom."""
import contextlib
import types
import unittest
from unittest import mock

import harness  # Makes the trainer's modules importable.
import torch

from host_memory import HostCopies

assert harness.TRAINER

DEVICE = types.SimpleNamespace(type="cuda")


class Streams:
    """Stands for torch.cuda: a piece of work on a stream comes behind all that the stream was told to wait for."""

    def __init__(self):
        self.computing = self.Stream(DEVICE)
        self._current = [self.computing]
        self.behind = {}  # Work -> what comes before it.

    class Stream:
        def __init__(self, device):
            self.device, self.before = device, set()

        def wait_stream(self, other):
            self.before |= other.before

        def wait_event(self, event):
            self.before |= event.before

    class Event:
        before = frozenset()

        def record(self, stream):
            self.before = frozenset(stream.before)

        def query(self):
            return False

    @contextlib.contextmanager
    def stream(self, stream):
        self._current.append(stream)
        yield
        self._current.pop()

    def current(self, device=None):
        return self._current[-1]

    def work(self, name):
        stream = self.current()
        self.behind[name] = frozenset(stream.before)
        stream.before.add(name)


class Tensor:
    shape, dtype = (4,), torch.float32

    def __init__(self, streams, name, device=DEVICE):
        self._streams, self.name, self.device, self.used_by = streams, name, device, []

    def copy_(self, source, non_blocking=False):
        assert non_blocking
        self._streams.work(f"copy of {source.name}")
        return self

    def record_stream(self, stream):
        self.used_by.append(stream)


class Collective:
    """On a stream of its own, behind what the stream has that it is begun on."""

    def __init__(self, streams, name):
        self._streams, self._own = streams, Streams.Stream(DEVICE)
        self._own.wait_stream(streams.current())
        with streams.stream(self._own):
            streams.work(name)

    def wait(self):
        self._streams.current().wait_stream(self._own)


class HostStreams(unittest.TestCase):
    def setUp(self):
        self.streams = Streams()
        self.enterContext(mock.patch.multiple(
            torch.cuda, Stream=Streams.Stream, Event=Streams.Event, stream=self.streams.stream, current_stream=self.streams.current))
        self.enterContext(mock.patch.object(
            torch, "empty", lambda shape, dtype, device=None, pin_memory=False: Tensor(self.streams, "room", device)))
        self.copies = HostCopies(DEVICE)

    def tensor(self, name):
        return Tensor(self.streams, name)

    def test_a_share_is_fetched_and_gathered_beside_what_computes(self):
        self.streams.work("layer 1")
        share = self.copies.fetch(self.tensor("share"), DEVICE)
        self.streams.work("layer 2")
        with self.copies.behind_fetches():
            gathered = Collective(self.streams, "gather")
        self.streams.work("layer 3")
        gathered.wait()
        share.wait()
        self.streams.work("layer 4")
        behind = self.streams.behind
        self.assertEqual(behind["copy of share"], {"layer 1"})
        self.assertEqual(behind["gather"], {"layer 1", "layer 2", "copy of share"})
        self.assertEqual(behind["layer 3"], {"layer 1", "layer 2"}, "computation waits where it is told to")
        self.assertLessEqual({"gather", "copy of share"}, behind["layer 4"])
        self.assertEqual(share.tensor.used_by, [self.streams.computing], "it is freed behind what waited for the gather")

    def test_all_of_an_operator_s_parameters_are_fetched_into_their_room(self):
        room = self.tensor("room")
        fetched = self.copies.fetch(self.tensor("parameters"), DEVICE, room)
        self.assertIs(fetched.tensor, room)
        self.streams.work("before")
        fetched.wait()
        self.streams.work("after")
        self.assertNotIn("copy of parameters", self.streams.behind["before"])
        self.assertIn("copy of parameters", self.streams.behind["after"])

    def test_a_gradient_leaves_behind_its_sum_and_nothing_that_computes_since(self):
        self.streams.work("backward 2")
        scattered = Collective(self.streams, "scatter")
        self.streams.work("backward 1")
        gradient = self.tensor("gradient")
        leaving = self.copies.leave(gradient, scattered)
        self.streams.work("backward 0")
        self.assertEqual(self.streams.behind["copy of gradient"], {"backward 2", "scatter"})
        self.assertEqual(self.streams.behind["backward 0"], {"backward 2", "backward 1"})
        self.assertEqual(len(gradient.used_by), 1, "it may be freed at once, behind the copy")
        self.assertFalse(leaving.ready)

    def test_one_replica_s_gradient_leaves_behind_what_computed_it(self):
        self.streams.work("backward 1")
        self.copies.leave(self.tensor("gradient"), None)
        self.assertEqual(self.streams.behind["copy of gradient"], {"backward 1"})

    def test_a_hidden_state_leaves_beside_its_operator_and_comes_back_ahead_of_its_use(self):
        self.streams.work("layer 1")
        hidden = self.copies.put(self.tensor("hidden"))
        self.streams.work("layer 2")
        hidden.fetch()
        self.streams.work("backward 2")
        hidden.get()
        self.streams.work("backward 1")
        self.assertEqual(self.streams.behind["copy of hidden"], {"layer 1"})
        self.assertEqual(self.streams.behind["copy of room"], {"layer 1", "copy of hidden"})
        self.assertNotIn("copy of room", self.streams.behind["backward 2"])
        self.assertIn("copy of room", self.streams.behind["backward 1"])

    def test_a_join_has_everything_wait_for_everything(self):
        share = self.copies.fetch(self.tensor("share"), DEVICE)
        self.copies.leave(self.tensor("gradient"), None)
        self.copies.join()
        self.streams.work("layer")
        self.assertEqual(self.streams.behind["layer"], {"copy of share", "copy of gradient"})
        self.copies.fetch(self.tensor("next"), DEVICE)
        self.assertIn("copy of gradient", self.streams.behind["copy of next"])
        self.assertIsNotNone(share)


if __name__ == "__main__":
    unittest.main()
