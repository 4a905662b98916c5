"""The price of an all-reduce beside NCCL's own median: on made-up traces, and, with TRIMTAB_TEST_LONG=1, with the real daemons
and two ranks whose NCCL plays a recorded stream."""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BIN, LIB, ROOT

sys.path.insert(0, str(ROOT / "scripts/gpu_check"))
import price_programs
from gpu_check import nccl_price, report
from gpu_check.installation import Installation
from gpu_check.machine import with_this_python
from gpu_check.sections import Budget, Failed, NotShown

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
SIZE, LATE_MS, MS = nccl_price.BYTES, 8.0, 1_000_000


def calls(count, generator):
    """[(when each rank begins, when both end)] in ns, one after the other."""
    at = 0
    for call in range(count):
        begins = [at + MS * LATE_MS * price_programs.late(rank, call) for rank in range(2)]
        end = max(begins) + MS * generator.uniform(1.8, 2.2)
        yield [round(begin) for begin in begins], round(end)
        at = end + 15 * MS


def true_ms(played):
    return statistics.median((end - max(begins)) / MS for begins, end in played)


def trace_of(played):
    """As `trimtab trace` writes it. A call that one rank alone has and one of another size are in it, too."""
    events = [{"ph": "M", "name": "process_name", "pid": 0}]
    for number, (begins, end) in enumerate(played):
        for rank, begin in enumerate(begins):
            of = {"bytes": SIZE, "sequence": number, "rank": rank, "nodes": 2, "communicator": "7"}
            events.append({"cat": "collective", "pid": rank, "ts": begin / 1e3, "dur": (end - begin) / 1e3, "args": of})
    alone = {**events[1], "args": {**events[1]["args"], "sequence": len(played)}}
    return {"traceEvents": [*events, alone, {**alone, "args": {**alone["args"], "bytes": 4}}]}


class NcclPrice(unittest.TestCase):
    def setUp(self):
        self.played = list(calls(200, random.Random(7)))
        self.traced = nccl_price.collectives_in(trace_of(self.played))
        self.true = true_ms(self.played)

    def test_the_median_without_waiting(self):
        self.assertEqual(len(self.traced), 200)
        result = nccl_price.judged(self.true, self.traced, LATE_MS, [2.1, 2.3])
        self.assertAlmostEqual(result["nccl_ms"]["value"], self.true, places=3)
        self.assertGreater(result["own_ms"], self.true + LATE_MS - 1)
        self.assertLess(result["nccl_ms"]["high"] / result["nccl_ms"]["low"], 1.1)
        text = "\n".join(report.details({"section": "nccl-price", "result": result}))
        self.assertIn(f"nccl-price: {self.true:.3f} ms; NCCL's own median of 200 calls {self.true:.3f} [", text)
        self.assertIn("2.200 by CUDA's events", text)

    def test_a_price_with_waiting_in_it_fails(self):
        for price in (self.true * 1.1, self.true * 0.9, self.true + LATE_MS):
            with self.assertRaisesRegex(Failed, "is priced at"):
                nccl_price.judged(price, self.traced, LATE_MS, [])

    def test_where_nobody_waited_or_nothing_is_sure_nothing_is_shown(self):
        with self.assertRaisesRegex(NotShown, "nobody waited"):
            nccl_price.judged(self.true, [{**one, "own_ms": [one["transfer_ms"]] * 2} for one in self.traced], LATE_MS, [])
        wild = [{**one, "transfer_ms": one["transfer_ms"] * (1 + index % 2)} for index, one in enumerate(self.traced)]
        with self.assertRaisesRegex(NotShown, "NCCL's own median is"):
            nccl_price.judged(3.0, wild, LATE_MS, [])

    def test_the_interval_holds_the_median_as_often_as_it_says(self):
        generator, held = random.Random(3), 0
        for _ in range(400):
            low, high = nccl_price.interval_of_median(sorted(generator.expovariate(1) for _ in range(60)))
            held += low <= 0.6931 <= high
        self.assertGreater(held, 0.93 * 400)

    def test_of_five_calls_the_second_rank_is_late_to_three_and_the_first_to_another(self):
        late = [[price_programs.late(rank, call) for rank in range(2)] for call in range(5)]
        self.assertEqual(late, [[True, False], [False, False], [False, True], [False, True], [False, True]])

    def test_the_benchmark_measures_no_communication(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "requests.json")
            path.write_text(json.dumps({"items": [{"kind": "operator", "cost_key": "all", "dtype": "float32", "samples": 1},
                                                  {"kind": "collective", "primitive": "all_reduce", "bytes": 4}]}))
            words = [sys.executable, nccl_price.PROGRAMS, "answer", "--requests", path]
            lines = [json.loads(line) for line in subprocess.run(words, capture_output=True, check=True).stdout.splitlines()]
        self.assertEqual([" ".join(sorted(line)) for line in lines],
                         [*["cost item values"] * 4, "item_done", "error item", "item_done"])

    @unittest.skipUnless(LONG, "TRIMTAB_TEST_LONG=1")
    def test_two_ranks_of_a_recorded_stream(self):
        if not (BIN / "nccl_host").exists() or not (BIN / "trimtab").exists():
            self.skipTest(f"{BIN} lacks nccl_host or trimtab")
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        folder = pathlib.Path(held.name)
        build = folder / "build"
        (build / "bin").mkdir(parents=True)
        (build / "bin/trimtab-gpu-bench").touch()
        (build / "lib").symlink_to(LIB)
        installation = Installation(folder / "here", BIN, build)
        installation.assemble()

        def recorded(place):
            """Ranks that play the calls some seconds from now, once the trace has begun."""
            for rank in range(2):
                lines = [f"AllReduce 0 {SIZE // 4} {begins[rank]} {end}\n" for begins, end in self.played]
                (place / f"stream-{rank}").write_text("".join(lines))
            plays = (f"(sleep 0.5; touch {place}/ready-{{rank}}) & exec {BIN}/nccl_host load ranks:2/{{rank}} "
                     f"stream:{place}/stream-{{rank}} finalize")
            return ["env", f"HOST_BEGIN={time.time_ns() + 8000 * MS}", "HOST_GPU_AHEAD=77000000000", "sh", "-c", plays]

        result = nccl_price.nccl_price(installation, with_this_python(os.environ), Budget(120), ranks_of=recorded, traced_s=14,
                                       late_ms=LATE_MS)
        self.addCleanup(print, "\n".join(report.details({"section": "nccl-price", "result": result})))
        self.assertAlmostEqual(result["price_ms"] / self.true, 1, delta=0.05)


if __name__ == "__main__":
    unittest.main()
