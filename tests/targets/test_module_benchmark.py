"""The benchmark command of DDP jobs, on two real ranks: every item is answered, or refused in words."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"


class ModuleBenchmark(unittest.TestCase):
    def ask(self, items):
        """The answers of rank 0: lines by item."""
        folder = pathlib.Path(self.folder.name)
        requests = folder / "requests.json"
        requests.write_text(json.dumps({"schema": "trimtab.benchmark_requests/1", "relative_error": 0.5,
                                        "min_repetitions": 2, "max_repetitions": 4, "items": items}), encoding="utf-8")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                       "PYTHONPATH": f"{ROOT / 'client' / 'python'}:{pathlib.Path(__file__).parent}"}
        words = [PYTHON, "-m", "trimtab.module_benchmark", "gpt_module:small", "--requests", str(requests),
                 "--world-size", "2", "--rendezvous", f"file://{folder}/rendezvous"]
        ranks = [subprocess.Popen([*words, "--rank", str(rank)], env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for rank in range(2)]
        said = [rank.communicate(timeout=120) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], said)
        lines = [json.loads(line) for line in said[0][0].splitlines() if line.startswith("{")]
        return {number: [line for line in lines if line.get("item", line.get("item_done")) == number]
                for number in range(len(items))}

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_every_kind(self):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'client' / 'python'}:{pathlib.Path(__file__).parent}"}
        done = subprocess.run([PYTHON, "-m", "trimtab.module_model", "gpt_module:small", "--global-batch", "4"],
                              env=environment, capture_output=True, text=True, timeout=60, check=True)
        key = json.loads(done.stdout)["operators"][1]["cost_key"]
        answers = self.ask([
            {"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 1, "sharding": "default"},
            {"kind": "optimizer", "cost_key": key, "dtype": "float32"},
            *({"kind": "collective", "primitive": primitive, "bytes": 4096, "group_size": 2}
              for primitive in ("all_reduce", "reduce_scatter", "all_gather")),
            {"kind": "overlap", "primitive": "all_reduce", "bytes": 4096, "group_size": 2, "cost_key": key,
             "dtype": "float32", "samples": 2},
            {"kind": "process"},
            {"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 2},
            {"kind": "point_to_point", "bytes": 64}])
        kinds = [[line["cost"]["kind"] for line in answers[number] if "cost" in line] for number in range(7)]
        self.assertEqual(kinds, [
            ["operator_forward", "operator_backward", "operator_stored_bytes", "operator_working_bytes"],
            ["optimizer_step"], ["collective"], ["collective"], ["collective"],
            ["overlap_computation", "overlap_communication"], ["process_bytes"]])
        for number in range(7):
            self.assertEqual(answers[number][-1], {"item_done": number})
            for line in answers[number][:-1]:
                self.assertTrue(all(isinstance(value, int) and value > 0 for value in line["values"]), line)
        self.assertIn("one rank each", answers[7][0]["error"])
        self.assertIn("kind must be one of", answers[8][0]["error"])


if __name__ == "__main__":
    unittest.main()
