"""Shares that `trimtab explain` finds, beside those of HolisticTraceAnalysis (HTA) on HTA's own sample traces: a folder
HolisticTraceAnalysis in TRIMTAB_SOURCES, and the module `hta` in this Python or in that folder's environment/bin/python.

HTA's temporal breakdown is of the time from the first kernel to the end of the last one: computing (a computation kernel runs), not
computing (another kernel or a copy runs, no computation), idle. The card's shares are computation; exposed communication and other; the
rest. HTA counts a stream's "Stream Sync" as not computing, and the card as idle. HTA is told to keep the last step. HTA's overlap is the
part of communication's time in which a computation kernel runs."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

BUILD = pathlib.Path(os.environ.get("TRIMTAB_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/release"))
TRIMTAB = BUILD / "bin/trimtab"
SOURCES = pathlib.Path(os.environ.get("TRIMTAB_SOURCES", "/nowhere")) / "HolisticTraceAnalysis"
SAMPLES = SOURCES / "tests/data"
PYTHON = next((path for path in [SOURCES / "environment/bin/python"] if path.exists()), pathlib.Path(sys.executable))
POINTS = 2.0  # of a percentage: the most that they may differ

HTA = """
import json, logging, os, sys
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
for path in sys.argv[1:]:
    try:
        analysis = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path), include_last_profiler_step=True)
        row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
        shares = [float(row[name]) for name in ("compute_time_pctg", "non_compute_time_pctg", "idle_time_pctg")]
        try:
            overlap = float(analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"])
        except Exception:
            overlap = float("nan")
        shares.append(overlap if overlap == overlap else None)
    except Exception:  # a sample without a device
        shares = None
    print(json.dumps(shares), flush=True)
"""


def has_hta():
    return subprocess.run([PYTHON, "-c", "import hta"], capture_output=True, check=False).returncode == 0


def samples():
    return sorted(path for path in SAMPLES.rglob("*.json.gz") if path.stat().st_size > 0 and "mtia" not in path.name)


@unittest.skipUnless(SAMPLES.exists(), "TRIMTAB_SOURCES has no HolisticTraceAnalysis with its samples")
@unittest.skipUnless(TRIMTAB.exists(), "trimtab is not built")
class TraceShares(unittest.TestCase):
    def shares(self, path):
        """Percentages as HTA calls them, or why there are none."""
        done = subprocess.run([TRIMTAB, "explain", "--json", path], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            self.assertEqual(done.returncode, 2, done.stderr)
            return None
        card = json.loads(done.stdout)
        shares = card["shares"]
        kinds = card.get("communication", [])
        hidden = sum(one["hidden"] for one in kinds)
        communicating = hidden + sum(one["exposed"] for one in kinds)
        computing = shares["computation"]
        others = shares["exposed_communication"] + shares["other"]
        overlap = 100 * hidden / communicating if communicating > 0 else None
        return [100 * computing, 100 * others, 100 * (1 - computing - others), overlap]

    def test_samples(self):
        if not has_hta():
            self.skipTest("no Python module hta")
        paths = samples()
        done = subprocess.run([PYTHON, "-c", HTA, *paths], capture_output=True, text=True, timeout=900, check=False)
        theirs = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(("[", "null"))]
        self.assertEqual(len(theirs), len(paths), done.stderr[-2000:])
        compared = 0
        for path, expected in zip(paths, theirs):
            if expected is None:
                continue
            with self.subTest(trace=str(path.relative_to(SAMPLES))):
                found = self.shares(path)
                self.assertIsNotNone(found, "explain refuses it")
                self.assertEqual(found[3] is None, expected[3] is None)
                pairs = [(mine, other) for mine, other in zip(found, expected) if mine is not None]
                most = max(abs(mine - other) for mine, other in pairs)
                print(f"{path.relative_to(SAMPLES)}: {most:.2f} points apart (explain, HTA: {[(round(a, 2), b) for a, b in pairs]})")
                self.assertLessEqual(most, POINTS)
                compared += 1
        self.assertGreater(compared, 0)


if __name__ == "__main__":
    unittest.main()
