"""FSDP of both kinds and HSDP as trimtab.parallel makes them of a plan's file: four Gloo ranks train as one process does."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CLIENT = HERE.parents[1] / "client" / "python"
sys.path[:0] = [str(HERE.parent / "client_python"), str(CLIENT)]

from watched_job import PYTHON  # noqa: E402

RANKS, BATCH = 4, 16
PARTS = {  # of the file: what it says, and ranks that share a layer, and copies of it
    "fsdp2-parameters": ({"kind": "fsdp2", "reshard_after_forward": True, "shard_group_size": 4}, (4, 1)),
    "fsdp2-gradients": ({"kind": "fsdp2", "reshard_after_forward": False, "shard_group_size": 4, "checkpoint_layers": [0, 2]}, (4, 1)),
    "fsdp2-hybrid": ({"kind": "fsdp2", "reshard_after_forward": True, "shard_group_size": 2, "checkpoint_layers": [1]}, (2, 2)),
    "fsdp2-replicas": ({"kind": "fsdp2", "reshard_after_forward": False, "shard_group_size": 1}, (1, 4)),
    "fsdp-parameters": ({"kind": "fsdp", "sharding_strategy": "FULL_SHARD", "shard_group_size": 4, "checkpoint_layers": [0, 2]}, None),
    "fsdp-hybrid": ({"kind": "fsdp", "sharding_strategy": "HYBRID_SHARD", "shard_group_size": 2}, None),
}
LIVE = {  # Plans that one job takes as it trains; the last is the first again.
    "fsdp2-live": [{"kind": "fsdp2", "shard_group_size": 4, **said} for said in (
        {"reshard_after_forward": True}, {"reshard_after_forward": False, "checkpoint_layers": [0, 2], "samples_per_microbatch": 4,
                                          "accumulation_steps": 1}, {"reshard_after_forward": True})],
    "fsdp-live": [{"kind": "fsdp", "sharding_strategy": "FULL_SHARD", "shard_group_size": 4, **said} for said in (
        {}, {"checkpoint_layers": [1], "samples_per_microbatch": 1, "accumulation_steps": 4}, {})],
    "ddp-live": [{"kind": "ddp", **said} for said in (
        {}, {"bucket_cap_mb": 1.0, "checkpoint_layers": [1], "samples_per_microbatch": 1, "accumulation_steps": 4}, {})],
}


def file_of(said):
    return {"schema": "trimtab.parallel/1", "world_size": RANKS, "global_batch": BATCH, "samples_per_microbatch": 2, "accumulation_steps": 2,
            "layers": 3, "checkpoint_layers": [], **said}


class ShardedRanks(unittest.TestCase):
    def run_ranks(self, folder, ranks):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("TRIMTAB", "RANK", "WORLD_SIZE"))}
        done = subprocess.run([PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(ranks),
                               HERE / "scripts" / "sharded_ranks.py", folder], check=False, capture_output=True, text=True, timeout=240,
                              env={**environment, "PYTHONPATH": str(CLIENT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return {told["file"].rpartition(".")[0]: told for told in map(json.loads, done.stdout.splitlines())}

    def test_losses_are_those_of_one_process(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as alone:
            for name, (said, _) in PARTS.items():
                (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(file_of(said)), encoding="utf-8")
            for name, plans in LIVE.items():
                (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(list(map(file_of, plans))), encoding="utf-8")
            (pathlib.Path(folder) / "fsdp2-unplanned.json").write_text("{}", encoding="utf-8")
            plain = {"kind": "ddp", "world_size": 1, "samples_per_microbatch": 8, "zero_redundancy_optimizer": False}
            (pathlib.Path(alone) / "ddp.json").write_text(json.dumps({**file_of({}), **plain}), encoding="utf-8")
            told = self.run_ranks(folder, RANKS)
            one = self.run_ranks(alone, 1)["ddp"]
        self.assertEqual(set(told), {*PARTS, *LIVE, "fsdp2-unplanned"})
        self.assertGreater(one["losses"][0], 1.01 * one["losses"][-1], "it learns")
        for name, run in told.items():
            with self.subTest(file=name):
                for mine, plain in zip(run["losses"] + run["norms"], one["losses"] + one["norms"]):
                    self.assertAlmostEqual(mine, plain, delta=1e-5 * max(1, plain))
                for step, configuration in enumerate(run["configurations"] if name in LIVE else []):
                    self.assertLessEqual(file_of(LIVE[name][max(step - 1, 0) // 2]).items(), {**configuration, "schema": "trimtab.parallel/1"}.items())
                placed = PARTS.get(name, (None, None if name in LIVE else (4, 1)))[1]
                if placed is not None:
                    self.assertEqual((run["shard"], run["replicas"]), placed)


if __name__ == "__main__":
    unittest.main()
