"""Snapshots that are not whole do not count."""
import os
import threading
import unittest

import torch

from harness import OPERATORS, SINGLE, JobTest

import config
import holding
import plan as plans
from errors import OutsideFailure
from model import operator_specs
from operator_state import OperatorState, initial
from process_groups import ProcessGroups
from snapshot import SnapshotStore

CPU = torch.device("cpu")


class Together:
    """Ranks of one process, each on a thread of its own, that exchange objects."""

    def __init__(self, world_size):
        self._given, self._barrier = [None] * world_size, threading.Barrier(world_size, timeout=60)

    def of(self, rank):
        return type("Groups", (), {"gather_objects": lambda _, value: self._gather(rank, value)})()

    def _gather(self, rank, value):
        self._given[rank] = value
        self._barrier.wait()
        everyone = list(self._given)
        self._barrier.wait()
        return everyone


class Snapshots(JobTest):
    def setUp(self):
        super().setUp()
        self.model = config.load(self.config)
        self.specs = operator_specs(self.model)
        self.plan = plans.parse(SINGLE, self.model, 1)
        self.directory = os.path.join(self.folder, "snapshots")
        self.states = []
        for spec in self.specs:
            values = initial(spec, self.model, holding.alone(spec, self.model), CPU)
            self.states.append(OperatorState(spec, self.model, CPU, values))
        self.store = self.make_store(self.model)

    def make_store(self, model):
        return SnapshotStore(self.directory, 0, ProcessGroups(0, 1, CPU), self.specs, model)

    def save(self, step):
        for state in self.states:
            state.values.parameters.fill_(float(step))
            state.values.moments.fill_(float(step))
        self.store.save(step, self.plan, self.states)

    def newest(self):
        return os.path.join(self.directory, sorted(os.listdir(self.directory))[-1])

    def load(self, store=None):
        return (store or self.store).load(self.plan, CPU)

    def test_nothing_there_is_not_a_failure(self):
        self.assertIsNone(self.load())

    def test_the_newest_is_loaded_and_two_are_kept(self):
        for step in (3, 5, 5, 8):
            self.save(step)
        self.assertEqual(sorted(os.listdir(self.directory)), ["step-00000005.1", "step-00000008.0"])
        snapshot = self.load()
        self.assertEqual(snapshot.step, 8)
        self.assertEqual(float(snapshot.values[OPERATORS - 1].moments.min()), 8.0)

    def test_one_without_manifest_is_as_if_it_were_not_there(self):
        self.save(3)
        self.save(5)
        os.unlink(os.path.join(self.newest(), "manifest.json"))
        self.assertEqual(self.load().step, 3)

    def test_a_flipped_bit_is_found_and_the_one_before_is_loaded(self):
        self.save(3)
        self.save(5)
        with open(os.path.join(self.newest(), "rank0.state"), "r+b") as file:
            file.seek(1000)
            byte = file.read(1)[0]
            file.seek(1000)
            file.write(bytes([byte ^ 1]))
        self.assertEqual(self.load().step, 3)

    def test_none_readable_is_an_error_not_a_fresh_start(self):
        self.save(3)
        os.truncate(os.path.join(self.newest(), "rank0.state"), 100)
        with self.assertRaisesRegex(OutsideFailure, "none of 1 snapshots is readable"):
            self.load()

    def save_together(self, directories):
        """What two ranks say of a snapshot, each in the folder given; "" where they are content."""
        together, said = Together(2), ["", ""]

        def save(rank):
            store = SnapshotStore(directories[rank], rank, together.of(rank), self.specs, self.model)
            try:
                store.save(3, self.plan, self.states[rank::2])
            except OutsideFailure as error:
                said[rank] = str(error)

        threads = [threading.Thread(target=save, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return said

    def test_ranks_with_a_folder_each_are_told_at_once_and_leave_nothing(self):
        apart = [os.path.join(self.folder, name, "snapshots") for name in ("n0", "n1")]
        for said in self.save_together(apart):
            self.assertIn("finds no rank1.state in", said)
            self.assertIn("one folder for all ranks", said)
            self.assertIn("not {scratch}", said)
        self.assertEqual([os.listdir(directory) for directory in apart], [[], []])

    def test_ranks_with_one_folder_save(self):
        self.assertEqual(self.save_together([self.directory] * 2), ["", ""])
        self.assertEqual(self.load().step, 3)

    def test_a_folder_that_cannot_be_written_is_reported(self):
        with open(self.directory, "w", encoding="utf-8"):
            pass  # A file stands where the folder should be.
        with self.assertRaisesRegex(OutsideFailure, "cannot write a snapshot"):
            self.save(1)

    def test_training_goes_on_where_a_periodic_snapshot_cannot_be_written(self):
        os.symlink("/nowhere/at/all", self.directory)
        run = self.start(SINGLE, 1, 7, "--snapshots", self.directory, "--snapshot-every", "3").wait()
        self.assertEqual(run.codes, [0], run.errors)
        self.assertEqual(sorted(run.log()), list(range(7)))
        self.assertEqual(run.errors[0].count("goes without its snapshot"), 2, run.errors)


if __name__ == "__main__":
    unittest.main()
