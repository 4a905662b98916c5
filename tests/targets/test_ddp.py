"""The five-line integration on two real ranks: every knob does what it says, and training stays the same."""
import json
import os
import pathlib
import signal
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "trainer"))

from rank_programs import Program  # noqa: E402

WORLD, BATCH, STEPS = 2, 32, 5
PLAIN = {"schema": "trimtab.parallel/1", "kind": "ddp", "world_size": WORLD, "global_batch": BATCH,
         "samples_per_microbatch": 16, "accumulation_steps": 1, "layers": 4, "checkpoint_layers": [],
         "zero_redundancy_optimizer": False}


class DdpTest(unittest.TestCase):
    maxDiff = None  # a rank that hangs says where

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs = 0

    def train(self, *, stop_at=None, **changes):
        """What each rank says after training under PLAIN with these changes."""
        self.runs += 1
        configuration = self.folder / f"{self.runs}.json"
        configuration.write_text(json.dumps({**PLAIN, **changes}), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "client" / "python"), "TRIMTAB": "0", "PYTHONFAULTHANDLER": "1",
                       "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        ranks, outs = [], []
        for rank in range(WORLD):
            outs.append(self.folder / f"{self.runs}-{rank}.json")
            words = [pathlib.Path(__file__).with_name("ddp_job.py"), configuration, rank, WORLD,
                     f"file://{self.folder}/rendezvous-{self.runs}", STEPS, outs[-1]]
            if stop_at is not None:
                words += ["--stop-at", stop_at]
            ranks.append(Program(list(map(str, words)), outs[-1].with_suffix(""), environment))
        self.assertEqual(*self.ended(ranks))
        return [json.loads(out.read_text(encoding="utf-8")) for out in outs]

    @staticmethod
    def ended(ranks):
        """What ranks said and their ends, beside those of good ranks. Whoever hangs is ended, and says where."""
        deadline = time.monotonic() + 120
        while any(rank.returncode is None for rank in ranks) and time.monotonic() < deadline:
            time.sleep(0.05)
        for rank in ranks:
            if rank.returncode is None:
                rank.send_signal(signal.SIGABRT)  # faulthandler: a rank that hangs says where
        said = [(rank.wait(), rank.communicate()[1]) for rank in ranks]
        return said, [(0, text) for _, text in said]

    def assert_same_training(self, said, plain):
        for rank in said:
            for ours, theirs in zip(rank["losses"], plain[0]["losses"], strict=True):
                self.assertAlmostEqual(ours, theirs, delta=1e-5 * abs(theirs))

    def test_every_knob(self):
        plain = self.train()
        self.assertLess(plain[0]["losses"][-1], plain[0]["losses"][0])
        self.assertEqual(plain[0]["passes"], [STEPS] * 4)
        self.assertEqual(plain[0]["microbatch"], [16])
        self.assertEqual(plain[0]["optimizer_states"], plain[0]["parameters"])

        # Microbatches, checkpointed layers and small buckets at once: one more pass of a checkpointed layer for each.
        said = self.train(samples_per_microbatch=4, accumulation_steps=4, checkpoint_layers=[1, 3],
                          bucket_cap_mb=0.5)
        self.assert_same_training(said, plain)
        self.assertEqual(said[0]["passes"], [4 * STEPS, 8 * STEPS, 4 * STEPS, 8 * STEPS])
        self.assertEqual(said[0]["microbatch"], [4])
        self.assertEqual(said[0]["bucket_cap_bytes"], 524288)
        self.assertGreater(said[0]["buckets"], plain[0]["buckets"])

        # Each rank keeps the states of its share alone.
        said = self.train(zero_redundancy_optimizer=True)
        self.assert_same_training(said, plain)
        states = [rank["optimizer_states"] for rank in said]
        self.assertEqual(sum(states), plain[0]["parameters"])
        self.assertLess(max(states), plain[0]["parameters"])

    def test_one_rank_is_asked_to_stop_and_all_do(self):
        for rank in self.train(stop_at=2):
            self.assertTrue(rank["stopped"])
            self.assertEqual(len(rank["losses"]), 3)


if __name__ == "__main__":
    unittest.main()
