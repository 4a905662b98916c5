"""Which elements of the parameters are where under a plan, and who sends them to whom when it changes."""
import random
import tomllib
import unittest

from harness import EVEN_RECOMPUTED, MODEL, OPERATORS, REPLICATED, SEED, plan
from random_plans import random_plan, text

import config
import holding
import intervals
import plan as plans
from model import operator_specs, parameter_count, parameters_of
from plan_change import messages, peak_state_bytes

CONFIG = config.from_document(tomllib.loads(MODEL))
SPECS = operator_specs(CONFIG)
WORLDS = (1, 2, 3, 4, 8)


def elements(pieces):
    return {element for begin, end in pieces for element in range(begin, end)}


def random_pieces(generator):
    bounds = sorted(generator.sample(range(40), 2 * generator.randint(0, 4)))
    return intervals.joined(zip(bounds[::2], bounds[1::2]))


class Intervals(unittest.TestCase):
    def test_they_are_sets_of_elements(self):
        generator = random.Random(SEED)
        for _ in range(500):
            left, right = random_pieces(generator), random_pieces(generator)
            here, there = elements(left), elements(right)
            self.assertEqual(elements(intervals.intersection(left, right)), here & there)
            self.assertEqual(elements(intervals.without(left, right)), here - there)
            self.assertEqual(intervals.size(left), len(here))
            ordered, other = sorted(here), sorted(there)
            self.assertEqual(elements(intervals.cut(left, 2, 7)), set(ordered[2:7]))
            for at, to, length in intervals.common(left, right):
                self.assertEqual(ordered[at : at + length], other[to : to + length], f"seed {SEED}")


class Holdings(unittest.TestCase):
    def each(self):
        generator = random.Random(SEED)
        for world_size in WORLDS:
            for _ in range(8):
                document = random_plan(generator, world_size, CONFIG)
                with self.subTest(seed=SEED, plan=text(document)):
                    yield plans.parse(document, CONFIG, world_size), world_size

    def test_one_rank_answers_for_each_element(self):
        for parsed, world_size in self.each():
            for spec in SPECS:
                held = [holding.of_rank(parsed, rank, spec, CONFIG) for rank in range(world_size)]
                answered = sorted(piece for one in held if one for piece in one.unique)
                self.assertEqual(intervals.joined(answered), ((0, parameter_count(spec, CONFIG)),))

    def test_a_replica_has_every_element_and_a_shard_group_all_moments(self):
        for parsed, _ in self.each():
            for spec in SPECS:
                segment = parsed.stage_of_operator(spec.index).segment_of_operator(spec.index)
                for rank in segment.devices:
                    place = segment.place_of(rank)
                    local = set()
                    for member in segment.tensor_members(place):
                        local |= elements(holding.of_rank(parsed, member, spec, CONFIG).local)
                    self.assertEqual(len(local), parameter_count(spec, CONFIG))
                    owned = [element for member in segment.shard_members(place)
                             for element in elements(holding.of_rank(parsed, member, spec, CONFIG).owned)]
                    self.assertEqual(sorted(owned), sorted(elements(holding.of_rank(parsed, rank, spec, CONFIG).local)))

    def test_a_sharded_operator_is_a_share(self):
        spec = SPECS[1]
        stage = {"devices": [0, 1, 2, 3], "segments": [{"operators": [0, 8], "dp": 2, "tp": 2}]}
        document = {**plan([], 12), "stages": [stage]}
        count = holding.of_rank(plans.parse(document, CONFIG, 4), 3, spec, CONFIG).count
        whole = sum(parameter.count for parameter in parameters_of(spec, CONFIG) if not parameter.split)
        self.assertEqual(count, (parameter_count(spec, CONFIG) - whole) // 2 + whole)
        wanted = {"none": 4 * count, "optimizer": 3 * count, "gradients": 5 * count // 2, "parameters": 2 * count}
        for level, elements_held in wanted.items():
            stage["segments"][0]["sharded"] = level
            held = holding.of_rank(plans.parse(document, CONFIG, 4), 3, spec, CONFIG)
            self.assertEqual(held.held_bytes, 4 * elements_held, level)

    def test_a_partitioned_operator_holds_what_sharded_parameters_do_and_its_neighbour_does_not(self):
        switches = {"offload_optimizer": True, "partition_parameters": [[1, 2]]}
        fields = {"dp": 2, "tp": 2, "sharded": "gradients", "switches": switches}
        stage = {"devices": [0, 1, 2, 3], "segments": [{"operators": [0, 8], **fields}]}
        parsed = plans.parse({**plan([], 12), "stages": [stage]}, CONFIG, 4)
        levels = [holding.of_rank(parsed, 3, spec, CONFIG).level for spec in SPECS]
        self.assertEqual(levels, ["gradients", "parameters", *["gradients"] * 6])
        one = holding.of_rank(parsed, 3, SPECS[1], CONFIG)
        self.assertTrue(one.offload)
        self.assertEqual(one.parameters, one.owned)


    def test_what_waits_on_the_host_is_counted_apart(self):
        """Of a partitioned operator over two replicas: bytes in all, and on the host, in shares of all its elements."""
        def held(switches, dp=2, degree=0, sharded="gradients"):
            fields = {"dp": dp, "tp": 4 // dp, "sharded": sharded, "sharded_degree": degree, "switches": switches}
            stage = {"devices": [0, 1, 2, 3], "segments": [{"operators": [0, 8], **fields}]}
            one = holding.of_rank(plans.parse({**plan([], 12), "stages": [stage]}, CONFIG, 4), 3, SPECS[1], CONFIG)
            self.assertEqual(one.held_bytes % (4 * one.piece), 0)
            return one.held_bytes // (4 * one.piece), one.host_bytes // (4 * one.piece)

        partition = {"partition_parameters": [[0, 8]]}
        lazy = {**partition, "lazy_prefetch": [[1, 2]]}
        self.assertEqual(held(partition), (4, 0))
        self.assertEqual(held(lazy), (4, 1))
        self.assertEqual(held({**partition, "offload_optimizer": True}), (4, 3))
        self.assertEqual(held({**lazy, "offload_optimizer": True}), (4, 4))
        # Two copies of the states: their gradients are summed on the devices.
        self.assertEqual(held({**lazy, "offload_optimizer": True}, dp=4, degree=2), (4, 3))
        self.assertEqual(held({**lazy, "offload_optimizer": True}, dp=1, sharded="none"), (4, 4))

    def test_a_change_to_the_host_is_a_move_that_a_device_s_memory_does_not_hold(self):
        def of(*lazy):
            switches = {"offload_optimizer": True, "partition_parameters": [[0, 8]], "lazy_prefetch": list(lazy)}
            stage = {"devices": [0, 1], "segments": [
                {"operators": [0, 8], "dp": 2, "sharded": "gradients", "switches": switches}]}
            return plans.parse({**plan([], 12), "stages": [stage]}, CONFIG, 2)

        here, there = of(), of([0, 8])
        pieces = [4 * holding.of_rank(here, 0, spec, CONFIG).piece for spec in SPECS]
        self.assertFalse(holding.of_rank(here, 0, SPECS[1], CONFIG).same_buffers(holding.of_rank(there, 0, SPECS[1], CONFIG)))
        self.assertEqual(peak_state_bytes(here, there, 0, SPECS, CONFIG, host_apart=True), (sum(pieces), 0))
        together, settled = peak_state_bytes(here, there, 0, SPECS, CONFIG)
        self.assertEqual(settled, 4 * sum(pieces))
        self.assertEqual(together, 4 * sum(pieces), "gradients are not there while the values move")


class Messages(unittest.TestCase):
    def test_they_bring_exactly_what_is_lacking(self):
        generator = random.Random(SEED)
        for world_size in WORLDS:
            documents = [random_plan(generator, world_size, CONFIG) for _ in range(6)]
            parsed = [plans.parse(document, CONFIG, world_size) for document in documents]
            for number in range(1, len(parsed)):
                with self.subTest(seed=SEED, old=text(documents[number - 1]), new=text(documents[number])):
                    for spec in SPECS:
                        self.assert_delivered(parsed[number - 1], parsed[number], spec, world_size)

    def assert_delivered(self, old, new, spec, world_size):
        sent = messages(old, new, spec, CONFIG)
        for rank in range(world_size):
            before, after = (holding.of_rank(one, rank, spec, CONFIG) for one in (old, new))
            for name in ("parameters", "owned"):
                field = "moments" if name == "owned" else name
                came = [element for message in sent if message.destination == rank
                        for element in elements(getattr(message, field))]
                had = elements(getattr(before, name)) if before else set()
                wanted = elements(getattr(after, name)) if after else set()
                self.assertEqual(sorted(came), sorted(wanted - had))
                for message in sent:
                    if message.source == rank:
                        self.assertLessEqual(elements(getattr(message, field)), had)

    def test_nothing_moves_between_equal_plans(self):
        parsed = plans.parse(REPLICATED, CONFIG, 2)
        for spec in SPECS:
            self.assertEqual(messages(parsed, parsed, spec, CONFIG), [])

    def test_the_peak_of_a_change_counts_what_is_held_together(self):
        old = plans.parse(EVEN_RECOMPUTED, CONFIG, 2)
        swapped = plans.parse(plan([([1], 0, 4, []), ([0], 4, 8, [])], 1), CONFIG, 2)
        peak, settled = peak_state_bytes(old, swapped, 0, SPECS, CONFIG)
        self.assertEqual(settled, sum(holding.alone(spec, CONFIG).held_bytes for spec in SPECS[4:]))
        self.assertGreaterEqual(peak, settled)
        stays, _ = peak_state_bytes(old, old, 0, SPECS, CONFIG)
        self.assertEqual(stays, sum(holding.alone(spec, CONFIG).held_bytes for spec in SPECS[:4]))
        everything, _ = peak_state_bytes(old, plans.parse(REPLICATED, CONFIG, 2), 0, SPECS, CONFIG)
        states = sum(holding.alone(spec, CONFIG).state_bytes for spec in SPECS)
        self.assertGreater(everything, states, "a message is held beside what it is unpacked into")
        self.assertEqual(OPERATORS, len(SPECS))


if __name__ == "__main__":
    unittest.main()
