"""A job that changes its plan again and again holds no more than one that changed it a few times.

TRIMTAB_TEST_LONG=1 makes 200 changes instead of 18."""
import os
import random
import tomllib
import unittest

from harness import MODEL, SEED, JobTest
from random_plans import random_plan

import config

LONG = os.environ.get("TRIMTAB_TEST_LONG") == "1"
PLANS, TIMES = (20, 10) if LONG else (6, 3)
SCRIPT = os.path.join("..", "tests", "trainer", "train_plans.py")
FILES, THREADS, KIB = range(3)


class ManySwitches(JobTest):
    def test_files_threads_and_memory_stay_bounded(self):
        generator = random.Random(f"{SEED} switches")
        model = config.from_document(tomllib.loads(MODEL))
        documents = [random_plan(generator, 4, model) for _ in range(PLANS)]
        # So few groups kept that each time through makes and destroys them.
        run = self.start(documents, 4, 1, "--switch", "--repeat", str(TIMES), "--groups-kept", "6", "--held",
                         script=SCRIPT)
        run.wait(900)
        self.assertEqual(run.codes, [0] * 4, f"seed {SEED}: {run.errors}")
        lines = run.lines()
        self.assertEqual(len(lines), PLANS * TIMES)
        for rank in range(4):
            # The first time through warms up; the same plan must not hold more the last time.
            for number in range(PLANS):
                second, last = (line["held"][rank] for line in (lines[PLANS + number], lines[number - PLANS]))
                where = f"seed {SEED}, rank {rank}, plan {number}: {second} then {last}"
                self.assertLessEqual(last[FILES], second[FILES], where)
                self.assertLessEqual(last[THREADS], second[THREADS], where)
                self.assertLess(last[KIB], second[KIB] + 16 * 1024, where)


if __name__ == "__main__":
    unittest.main()
