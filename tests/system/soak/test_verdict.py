"""The soak's verdict on made-up samples: it must find what it is there for."""
import pathlib
import random
import sys
import types
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import growth  # noqa: E402
import idle  # noqa: E402
from samples import Sample  # noqa: E402
from verdict import FORGOTTEN, HISTORY, Verdict  # noqa: E402

MINUTES = 10
STRETCH = (240.0, 600.0)
AGENT = types.SimpleNamespace(name="n0", kind="agent")


def samples(leak_mib_per_minute=0.0, databases=lambda t: 1 << 20, logs=lambda t: 1 << 20, most_mib=20.0):
    """A process that is restarted each half minute, then lives on; memory with noise and outliers."""
    noise = random.Random(1)
    for t in range(60 * MINUTES):
        age = t % 30 if t < STRETCH[0] else t - STRETCH[0]
        rss = most_mib + noise.uniform(-0.5, 0.5) + leak_mib_per_minute * age / 60 + (5 if noise.random() < 0.05 else 0)
        yield Sample(t, "n0", 1, age, round(1024 * rss), 1, 20, 5, 1.0, databases(t), logs(t), 0)


def verdict_on(these, rows=()):
    sampler = types.SimpleNamespace(samples=list(these), rows=list(rows))
    return Verdict(sampler, {"n0": sampler.samples[0]} if sampler.samples else {}, STRETCH)


class TheVerdict(unittest.TestCase):
    def broken(self, verdict):
        return " ".join(verdict.broken())

    def test_memory_that_only_wavers_does_not_grow(self):
        verdict = verdict_on(samples())
        verdict.check_memory(AGENT)
        self.assertEqual(verdict.broken(), [])

    def test_a_leak_is_found_through_noise_and_outliers(self):
        verdict = verdict_on(samples(leak_mib_per_minute=1.5))
        verdict.check_memory(AGENT)
        self.assertIn("memory grows", self.broken(verdict))

    def test_too_much_memory_is_found_even_where_it_does_not_grow(self):
        verdict = verdict_on(samples(most_mib=140))
        verdict.check_memory(AGENT)
        self.assertIn("never more than 128 MiB", self.broken(verdict))

    def test_a_process_that_never_settles_is_no_proof(self):
        verdict = verdict_on(s for s in samples() if s.age < growth.SETTLED_S)
        verdict.check_memory(AGENT)
        self.assertIn("too few samples", self.broken(verdict))

    def test_a_lost_descriptor_is_found(self):
        verdict = verdict_on(samples())
        verdict.check_descriptors(AGENT, Sample(600, "n0", 1, 9, 1, 1, 21, 5, 1.0, 0, 0, 0))
        self.assertIn("descriptors", self.broken(verdict))

    def test_a_database_that_grows_on_is_found(self):
        level = verdict_on(samples(databases=lambda t: min(t, 200) << 15))
        level.check_database(AGENT)
        self.assertEqual(level.broken(), [])
        growing = verdict_on(samples(databases=lambda t: t << 15))
        growing.check_database(AGENT)
        self.assertIn("databases stop growing", self.broken(growing))

    def test_a_log_that_grows_to_its_length_is_no_growth_and_one_beyond_it_is_found(self):
        level = verdict_on(samples(logs=lambda t: min(t << 15, 8 << 20)))
        level.check_database(AGENT)
        self.assertEqual(level.broken(), [])
        growing = verdict_on(samples(logs=lambda t: t << 15))
        growing.check_database(AGENT)
        self.assertIn("logs take at most", self.broken(growing))

    def test_history_that_stays_is_found_and_so_is_none_at_all(self):
        full = {HISTORY + name: 7 for name in FORGOTTEN} | {HISTORY + "audit": 3}
        empty = {name: 0 for name in full}
        for most, final, holds in ((full, empty, True), (full, empty | {HISTORY + "steps": 1}, False), (empty, empty, False)):
            verdict = verdict_on(samples(), [(1.0, "coordinator", most)])
            verdict.check_retention({"coordinator": final})
            self.assertEqual(verdict.broken() == [], holds, verdict.broken())

    def test_an_idle_daemon_over_its_budget_or_with_wrong_metrics_is_named(self):
        well = idle.Idle("n0", "agent", 0.004, 20, 15, 1, 0.01, 0.1)
        self.assertEqual(list(idle.broken([well])), [])
        for change in ({"cpu": 0.02}, {"rss_mib": 65}, {"said_cpu_s": 0.5}, {"said_rss_mib": -2}):
            with self.subTest(change):
                self.assertEqual(len(list(idle.broken([idle.Idle(**{**vars(well), **change})]))), 1)


if __name__ == "__main__":
    unittest.main()
