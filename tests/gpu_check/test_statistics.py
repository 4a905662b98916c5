"""Ratios, rounds and verdicts on made-up timings."""
import pathlib
import random
import statistics
import unittest

from harness import ManualClock

from gpu_check import arms, checks, overhead, report
from gpu_check.paired import median_ratio, noise, paired, percentile
from gpu_check.sections import Budget, Failed, Skipped


class Percentile(unittest.TestCase):
    def test_values(self):
        self.assertEqual(percentile(list(range(1, 101)), 0.99), 99)
        self.assertEqual(percentile([5, 1, 9], 0.99), 9)
        self.assertEqual(percentile([5, 1, 9], 0.5), 5)
        self.assertEqual(percentile([7], 0.01), 7)
        with self.assertRaises(ValueError):
            percentile([], 0.5)


class Ratios(unittest.TestCase):
    def test_the_interval_holds_the_true_ratio(self):
        seed = random.randrange(1 << 30)
        generator = random.Random(seed)
        held = 0
        for _ in range(100):
            ratio = median_ratio([1.004 + generator.gauss(0, 0.003) for _ in range(12)])
            self.assertLessEqual(ratio.low, ratio.value)
            self.assertLessEqual(ratio.value, ratio.high)
            held += ratio.low <= 1.004 <= ratio.high
        self.assertGreaterEqual(held, 82, f"seed {seed}")

    def test_no_pairs_is_no_ratio(self):
        with self.assertRaises(ValueError):
            median_ratio([])

    def test_a_drift_cancels_and_incomplete_rounds_do_not_count(self):
        rounds = [{"bare": 100.0 * speed, "full": 102.0 * speed, "bare again": 104.0 * speed} for speed in (1, 2, 4)]
        rounds.append({"full": 1.0, "bare": 1.0})
        self.assertEqual(paired(rounds, "full", ("bare", "bare again"), lambda run: run), [1.0] * 3)
        self.assertEqual(noise(rounds, "bare", "bare again", lambda run: run), [1.04] * 3)


class Rounds(unittest.TestCase):
    def test_each_round_turns_the_order_and_the_first_does_not_count(self):
        ran = []
        rounds = overhead.collect(("a", "b"), lambda arm: ran.append(arm) or len(ran), Budget(100, ManualClock()), rounds=3)
        self.assertEqual(ran, ["a", "b", "b", "a", "a", "b", "b", "a"])
        self.assertEqual(rounds, [{"b": 3, "a": 4}, {"a": 5, "b": 6}, {"b": 7, "a": 8}])

    def test_a_round_that_would_not_fit_is_not_begun(self):
        clock = ManualClock()

        def run(arm):
            clock.now += 2
        rounds = overhead.collect(("a", "b"), run, Budget(15, clock), rounds=50)
        self.assertEqual(len(rounds), 2)
        self.assertLessEqual(clock.now, 15)


class Arms(unittest.TestCase):
    def test_bare_has_nothing_of_ours_in_it(self):
        library = pathlib.Path("/x/lib/libtrimtab-inject.so")
        self.assertEqual(arms.environment(arms.BARE, library, "/s"), {})
        inherited = {"PATH": "/bin", "TRIMTAB_SOCKET": "/t", "CUDA_INJECTION64_PATH": "/y", "NCCL_PROFILER_PLUGIN": "z"}
        self.assertEqual(arms.cleared(inherited), {"PATH": "/bin"})
        full = arms.environment("full + KernelCh", library, "/s")
        self.assertEqual(full["CUDA_INJECTION64_PATH"], str(library))
        self.assertEqual(full["NCCL_PROFILER_PLUGIN"], "/x/lib/libnccl-profiler-trimtab.so")
        self.assertEqual(full["TRIMTAB_SOCKET"], "/s")
        self.assertNotIn("TRIMTAB_BUDGET", arms.environment("guarded", library, "/s"))
        self.assertNotIn("NVTX_INJECTION64_PATH", arms.environment("kernels only", library, "/s"))


def chain_rounds(cost, count, seed):
    """`count` rounds of chains in which an arm of Trimtab costs its share of the step, with 0.1 % noise."""
    generator = random.Random(seed)

    def steps(factor):
        return [1e6 * factor * (1 + generator.gauss(0, 0.001)) for _ in range(40)]
    return [{arm: {"step_ns": steps(1 + cost.get(arm, 0.0))} for arm in arms.ARMS} for _ in range(count)]


class Table(unittest.TestCase):
    def test_it_tells_what_was_measured_and_what_failed(self):
        rounds = chain_rounds({"guarded": 0.002, "full": 0.03}, 12, 4)
        workloads = {"5 us kernels": {"step": overhead.compare(rounds, tuple(arms.ARMS), lambda run: run["step_ns"])}}
        text = report.table({"date": "2026-01-01", "pytorch": None, "device": {"device": "some GPU", "driver": "1"},
                             "sections": [
                                 {"section": "overhead-chain", "status": "passed", "seconds": 12.5, "budget_s": 130,
                                  "result": {"workloads": workloads}},
                                 {"section": "tune", "status": "failed", "seconds": 1.0, "budget_s": 90,
                                  "reason": "no agent", "result": {}}]})
        self.assertIn("some GPU", text)
        self.assertIn("no agent", text)
        self.assertIn("5 us kernels", text)
        full = [line for line in text.splitlines() if line.startswith("    full  ")][0]
        self.assertRegex(full, r"step \+[23]\.\d\d % \[")
        self.assertIn("its events", text)


class RecordCost(unittest.TestCase):
    def test_the_shortest_kernels_tell(self):
        def chain(bare, injected, host=(3000, 4000)):
            def medians(kernel_ns, host_ns):
                return {"gpu_ns_per_kernel": kernel_ns, "step_ns": 100 * kernel_ns, "host_ns_per_launch": host_ns}
            return {"medians": {arms.BARE: medians(bare, host[0]), "kernels only": medians(injected, host[1])}}
        workloads = {"100 us kernels": chain(100e3, 105e3), "5 us kernels": chain(5000, 5400.4),
                     "graph of 5 us kernels": chain(4000, 4050, (5000, 32000))}
        self.assertEqual(overhead.cost_ns(workloads), {"kernel": {"device": 400, "host": 1000},
                                                       "graph": {"device": 5000, "host": 27000}})
        self.assertEqual(overhead.cost_ns({"5 us kernels": chain(5000, 4990)})["kernel"]["device"], 0)


class Held(unittest.TestCase):
    def test_time_beyond_steps_that_nothing_records(self):
        # The first seconds cost 10 %, then every fiftieth step does.
        steps = [1100] * 200 + [1100 if number % 50 == 0 else 1000 for number in range(800)]
        lost = overhead.share_lost(steps)
        self.assertAlmostEqual(lost["share"], 0.1 * 14 / 700)
        self.assertAlmostEqual(lost["share_at_first"], (200 * 0.1 + 16 * 0.1) / 1000)
        self.assertEqual(lost["quiet_step_ns"], 1000)
        self.assertEqual(overhead.share_lost([1000] * 10)["share"], 0)

    def test_a_share_says_something_only_where_most_steps_are_not_recorded(self):
        self.assertEqual(overhead.judge_budget([1000] * 10, 1000, 400)["kernels"], {"launched": 1000, "recorded": 400})
        for recorded, problem in ((0, "nothing was recorded"), (501, "nothing was held back")):
            with self.assertRaisesRegex(Failed, problem):
                overhead.judge_budget([1000] * 10, 1000, recorded)
        with self.assertRaisesRegex(Failed, "0.5 % are allowed"):
            overhead.judge_budget([1000] * 80 + [1050] * 20, 1000, 400)


class BesideAnotherProfiler(unittest.TestCase):
    BARE, QUIET = [875, 875], [(0, 10), (20, 40)]

    @staticmethod
    def stretch(begin, end):
        return begin * 10**9, end * 10**9, [second * 10**9 for second in range(begin + 1, end)]

    def judge(self, seen, kernels, bare=None):
        beside = {"events_on_device": seen, "without_profiler": [self.stretch(*one) for one in self.QUIET]}
        return checks.told_of_both(bare or self.BARE, beside, kernels, [(22, 15 * 10**8, 16 * 10**8, "foreign_profiler")])

    @staticmethod
    def kernels(*seconds, ns=1000):
        return [(16, second * 10**9, second * 10**9 + ns, "gemm") for second in seconds]

    def test_both_see_all(self):
        result = self.judge([875, 870], self.kernels(*range(10), *range(20, 40)))
        self.assertEqual([one["kernels"] for one in result["recorded"]], [10, 18])
        text = "\n".join(report.profiler(result))
        self.assertIn("875, 870", text)
        self.assertIn("not recorded for 100 ms: foreign_profiler", text)

    def test_who_saw_less_is_told(self):
        with self.assertRaisesRegex(Failed, r"torch.profiler saw \[0, 875\] of 875"):
            self.judge([0, 875], self.kernels(*range(40)))
        with self.assertRaisesRegex(Failed, "Trimtab recorded"):
            self.judge([875, 875], self.kernels(*range(10), 21))  # Too soon after the trace to count.
        with self.assertRaisesRegex(Failed, "Trimtab recorded"):
            self.judge([875, 875], self.kernels(*range(10), *range(25, 30)))  # Not all of them.
        with self.assertRaisesRegex(Failed, "Trimtab recorded"):  # Stamps of another clock.
            self.judge([875, 875], self.kernels(*range(10)) + self.kernels(*range(20, 40), ns=2300))
        with self.assertRaises(Skipped):
            self.judge([0, 0], [], bare=[0, 0])


class Medians(unittest.TestCase):
    def test_figures_of_an_arm(self):
        run = {"step_ns": [1, 2, 3], "host_ns_per_launch": [5], "gpu_ns_per_kernel": [7], "first_launch_ns": 9,
               "resident_bytes": 11, "device_bytes": 13}
        rounds = [{"bare": {"chain": run}}] * 3
        self.assertEqual(overhead.medians(rounds, "bare", "chain")["step_ns"], statistics.median([1, 2, 3]))
        self.assertEqual(overhead.medians(rounds, "bare", "chain")["device_bytes"], 13)


if __name__ == "__main__":
    unittest.main()
