"""What collecting costs by steps that are recorded and steps that are not: planted costs, and what is judged of them."""
import collections
import pathlib
import random
import tempfile
import unittest

from harness import ManualClock
from made_up_steps import SECOND, MadeUpSteps

from gpu_check import alternating, arms, report, step_overhead, taken_ring
from gpu_check.sections import Budget, Failed, NotShown

SOME = collections.Counter({taken_ring.KERNEL: 100})


def judged(planted, **how):
    made_up = MadeUpSteps(planted, **how)
    return step_overhead.judged_steps(made_up.steps, made_up.windows, SOME)


class Marks(unittest.TestCase):
    def test_spans_between_windows(self):
        self.assertEqual(alternating.between([(6, 8), (2, 4), (3, 5)], 0, 10), [(0, 2), (5, 6), (8, 10)])
        self.assertEqual(alternating.between([(0, 20)], 0, 10), [])
        self.assertEqual(alternating.between([], 0, 10), [(0, 10)])

    def test_a_stretch_is_compared_with_as_many_steps_on_both_sides(self):
        millisecond = 10**6
        lengths = [10] * 5 + [12, 14] + [20] * 6 + [30] * 3
        steps, now = [], 0
        for length in lengths:
            steps.append((now, now + length * millisecond))
            now += (length + 5) * millisecond
        marks = alternating.marked(steps, [(steps[5][0], steps[6][1])], away=[(steps[13][0], now)])
        self.assertEqual([mark for mark, _ in marks], ["quiet"] * 5 + ["recorded"] * 2 + ["quiet"] * 6 + ["away"] * 3)
        (excess, time), = alternating.pairs(marks)
        self.assertEqual(excess / millisecond, 26 - 2 * 15)
        self.assertEqual(time / millisecond, 26 + 6 * 20)
        self.assertEqual(alternating.pairs(marks[2:]), [], "three steps before it are too few")


class Planted(unittest.TestCase):
    def test_intervals_hold_the_truth(self):
        seed = random.randrange(1 << 20)
        for sampled in (True, False):
            held = 0
            for number in range(12):
                made_up = MadeUpSteps(0.003, sampled=sampled, seed=seed + number)
                away = [window[:2] for window in made_up.windows if window[2] == "no_agent"]
                spans = alternating.between([window[:2] for window in made_up.windows], made_up.steps[0][0], made_up.steps[-1][1])
                share = alternating.cost(made_up.steps, spans, away)["share"]
                held += share["low"] <= 0.003 <= share["high"]
            self.assertGreaterEqual(held, 8, f"seed {seed}, sampled {sampled}")

    def test_a_cost_within_the_budget_passes(self):
        for sampled in (True, False):
            result = judged(0.003, sampled=sampled)
            share = result["costs"]["steps"]["share"]
            self.assertAlmostEqual(share["value"], 0.003, delta=0.001)
            self.assertGreaterEqual(share["pairs"], arms.LEAST_PAIRS)
            text = "\n".join(report.costs("overhead-eager", result))
            self.assertRegex(text, r"\+0\.[234]\d % .*p99 \d+\.\d+ ms recorded")

    def test_a_cost_of_two_per_cent_fails(self):
        for sampled in (True, False):
            with self.assertRaisesRegex(Failed, r"0.50 % are allowed") as failed:
                judged(0.02, sampled=sampled)
            self.assertNotIsInstance(failed.exception, NotShown)
            self.assertAlmostEqual(failed.exception.result["costs"]["steps"]["share"]["value"], 0.02, delta=0.002)

    def test_a_cost_a_little_above_the_budget_fails_where_that_is_sure(self):
        with self.assertRaises(Failed) as failed:
            judged(0.006, sampled=True, noise=0.002)
        self.assertNotIsInstance(failed.exception, NotShown)

    def test_what_is_too_unsure_is_not_shown(self):
        with self.assertRaisesRegex(NotShown, "by 1[01] pairs"):
            judged(0.003, sampled=False, noise=0.15)
        with self.assertRaisesRegex(NotShown, "by [23] pairs"):
            judged(0.003, sampled=True, seconds=40)

    def test_nothing_recorded_is_no_cost_of_zero(self):
        made_up = MadeUpSteps(0, sampled=True)
        with self.assertRaisesRegex(Failed, "nothing was recorded"):
            step_overhead.judged_steps(made_up.steps, made_up.windows, collections.Counter())
        with self.assertRaisesRegex(Failed, "0 of .* steps were recorded"):
            step_overhead.judged_steps(made_up.steps, [(0, 10**15, "budget")], SOME)


class Judged(unittest.TestCase):
    @staticmethod
    def share(low, high, pairs=12):
        return {"value": (low + high) / 2, "low": low, "high": high, "pairs": pairs}

    def verdict(self, *given):
        try:
            alternating.judge(self.share(*given), 0.005)
        except Failed as failed:
            return type(failed)
        return None

    def test_the_limit_and_the_width(self):
        self.assertIsNone(self.verdict(0.001, 0.0049))
        self.assertIs(self.verdict(0.003, 0.0060), Failed)
        self.assertIs(self.verdict(-0.002, 0.0040), NotShown)
        self.assertIs(self.verdict(0.006, 0.0200), Failed)
        self.assertIs(self.verdict(0.006, 0.0200, 4), NotShown)
        self.assertIs(self.verdict(0.001, 0.002, 9), NotShown)

    def test_what_is_wrong_is_told_before_what_is_not_shown(self):
        costs = {"128 KiB": {"share": self.share(0, 0.1)}, "4096 KiB": {"share": self.share(0.01, 0.02)}}
        with self.assertRaisesRegex(Failed, "^4096 KiB: 1.00 %") as failed:
            step_overhead.judged({"costs": costs, "limit": 0.005})
        self.assertNotIsInstance(failed.exception, NotShown)


class Daemons:
    """The agent's metrics, before and after."""

    socket = "/nowhere"

    def __init__(self, recorded):
        self._pages = [{"trimtab_agent_collectives_total": 5.0}, {"trimtab_agent_collectives_total": 5.0 + recorded}]

    def settled(self, budget):
        return self._pages.pop(0)


class Here:
    def __init__(self, folder):
        self.folder, self.library = folder, folder / "libtrimtab-inject.so"


class Collectives(unittest.TestCase):
    """Ranks whose all-reduces take `planted` longer in one second of eight, of the time of all eight."""

    SIZES = {1 << 17: 0.004, 1 << 22: 0.06}

    class Rank:
        def __init__(self, planted, noise, told):
            self._random, self._planted, self._noise, self.told = random.Random(3), planted, noise, told

        def start(self, environment, program, settings):
            self.told.append((environment, program, settings))

        def finish(self, budget):
            groups, now = {str(size): [] for size in Collectives.SIZES}, 800 * SECOND
            while now < 892 * SECOND:
                for size, usual_s in Collectives.SIZES.items():
                    timed = now // SECOND % 8 == 0 or (now + usual_s * SECOND) // SECOND % 8 == 0
                    length = usual_s * self._random.gauss(1, self._noise) * (1 + 8 * self._planted * timed)
                    groups[str(size)].append((round(now), round(now + length * SECOND)))
                    now = groups[str(size)][-1][1] + 1000
            return {"groups": groups}

    def measured(self, planted, recorded=2000, noise=0.01):
        told = []
        with tempfile.TemporaryDirectory() as folder:
            result = step_overhead.collectives([self.Rank(planted, noise, told) for _ in range(2)], Here(pathlib.Path(folder)),
                                               Daemons(recorded), {"PATH": "/bin"}, Budget(10, ManualClock()))
        self.assertEqual([one[1] for one in told], ["loops"] * 2)
        self.assertEqual(told[0][0]["TRIMTAB_NCCL_DETAIL"], "sampled")
        self.assertNotEqual(told[0][0]["NCCL_HOSTID"], told[1][0]["NCCL_HOSTID"])
        return result

    def test_a_plugin_that_costs_little_passes(self):
        costs = self.measured(0.002)["costs"]
        self.assertEqual(list(costs), ["128 KiB", "4096 KiB"])
        for one in costs.values():
            self.assertAlmostEqual(one["share"]["value"], 0.002, delta=0.001)

    def test_one_that_costs_much_fails(self):
        with self.assertRaisesRegex(Failed, "128 KiB: .*; 4096 KiB: "):
            self.measured(0.02)

    def test_noise_is_not_shown(self):
        with self.assertRaises(NotShown):
            self.measured(0.002, noise=0.5)

    def test_all_or_nothing_recorded_says_nothing(self):
        for recorded in (0, 10**6):
            with self.assertRaisesRegex(Failed, f"{recorded} of"):
                self.measured(0.002, recorded=recorded)


class FirstSeconds(unittest.TestCase):
    """Fresh processes, each of 10 s of a made-up clock, whose steps differ by some per cent from one to the next."""

    def measured(self, planted, noise=0.01, budget_s=290):
        clock, generator = ManualClock(), random.Random(4)
        self.programs = []

        class Trainer:
            def run(inner, environment, settings, budget, program):
                self.programs.append((program, settings["way"]))
                clock.now += 14
                length = 55e6 * generator.gauss(1, noise) * (1 + planted * ("CUDA_INJECTION64_PATH" in environment))
                return {"steps": [(round(number * length), round((number + 1) * length)) for number in range(180)]}

        result = step_overhead.first_seconds(Trainer(), Here(pathlib.Path("/x")), Daemons(0), {"PATH": "/bin"}, Budget(budget_s, clock))
        self.assertLessEqual(clock.now, budget_s)
        return result

    def test_what_their_noise_can_show(self):
        result = self.measured(0.01)
        self.assertEqual(set(self.programs), {("llama", "eager")})
        self.assertAlmostEqual(result["costs"]["first ten seconds"]["share"]["value"], 0.01, delta=0.01)
        with self.assertRaisesRegex(Failed, "5.00 % are allowed"):
            self.measured(0.1)
        with self.assertRaises(NotShown):
            self.measured(0.01, noise=0.1)
        with self.assertRaisesRegex(NotShown, "by 2 pairs"):
            self.measured(0.01, budget_s=100)


if __name__ == "__main__":
    unittest.main()
