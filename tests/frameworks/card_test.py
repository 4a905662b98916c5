"""A script of tests/frameworks/scripts under the built `trimtab run`: the card that it leaves."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import unittest

from framework_job import LAUNCH_S, SCRIPTS, FrameworkTest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "system"))

from installation import TRIMTAB  # noqa: E402
from own_log import assert_near_own_log  # noqa: E402

CARD_S = 5  # From the script's end to its card.
ENDS_S = 2  # From the last line of a script's log to its end.


@unittest.skipUnless(TRIMTAB.exists(), "trimtab is not built")
class CardTest(FrameworkTest):
    def card(self, script, *launcher, arguments=(), **more):
        """The card is there in time, and its step is that of the script's own log."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB_", "SLURM_", "PYTHON"))}
        environment = {**kept, "TRIMTAB_RUN_AS_ROOT": "true", "TRIMTAB_STATE": os.path.join(self.folder, "state"), **more}
        words = [TRIMTAB, "run", "--out", "out", "--", *launcher, os.path.join(SCRIPTS, script), *arguments]
        done = subprocess.run(words, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LAUNCH_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        folder = pathlib.Path(self.folder)
        self.assertTrue((folder / "out" / "card.json").is_file(), done.stderr)
        card = json.loads((folder / "out" / "card.json").read_text())
        self.assertEqual(card["job"], script.removesuffix(".py"))
        self.assertEqual(card["ranks"], len(list(folder.glob("log-*.jsonl"))), done.stderr)
        ranks = [[json.loads(line)["ms"] for line in path.read_text().splitlines()] for path in folder.glob("log-*.jsonl")]
        # A card's step is the mean over its ranks.
        took = [statistics.mean(step) for step in zip(*ranks) if None not in step]
        assert_near_own_log(self, card["step_ms"]["median"], took)
        last = max(path.stat().st_mtime for path in folder.glob("log-*.jsonl"))
        self.assertLess((folder / "out" / "card.json").stat().st_mtime - last, CARD_S + ENDS_S)
        return card
