"""The benchmark command of jobs that train a module, on two real ranks: every item is answered, or refused in words."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"


class ModuleBenchmark(unittest.TestCase):
    def ask(self, items, ranks=2):
        """The answers of each rank: lines by item."""
        folder = pathlib.Path(self.folder.name)
        requests = folder / "requests.json"
        requests.write_text(json.dumps({"schema": "trimtab.benchmark_requests/1", "relative_error": 0.5,
                                        "min_repetitions": 2, "max_repetitions": 4, "items": items}), encoding="utf-8")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
                       "PYTHONPATH": f"{ROOT / 'client' / 'python'}:{pathlib.Path(__file__).parent}"}
        words = [PYTHON, "-m", "trimtab.module_benchmark", "gpt_module:small", "--requests", str(requests),
                 "--world-size", str(ranks), "--rendezvous", f"file://{folder}/rendezvous"]
        started = [subprocess.Popen([*words, "--rank", str(rank)], env=environment, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
        said = [rank.communicate(timeout=120) for rank in started]
        self.assertEqual([rank.returncode for rank in started], [0] * ranks, said)
        return [self.by_item(output, len(items)) for output, _ in said]

    def by_item(self, output, count):
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        return {number: [line for line in lines if line.get("item", line.get("item_done")) == number] for number in range(count)}

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_every_kind(self):
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'client' / 'python'}:{pathlib.Path(__file__).parent}"}
        done = subprocess.run([PYTHON, "-m", "trimtab.module_model", "gpt_module:small", "--global-batch", "4"],
                              env=environment, capture_output=True, text=True, timeout=60, check=True)
        key = json.loads(done.stdout)["operators"][1]["cost_key"]
        answers, _ = self.ask([
            {"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 1, "sharding": "default"},
            {"kind": "optimizer", "cost_key": key, "dtype": "float32"},
            *({"kind": "collective", "primitive": primitive, "bytes": 4096, "group_size": 2}
              for primitive in ("all_reduce", "reduce_scatter", "all_gather")),
            {"kind": "overlap", "primitive": "all_reduce", "bytes": 4096, "group_size": 2, "cost_key": key,
             "dtype": "float32", "samples": 2},
            {"kind": "process"}, {"kind": "point_to_point", "bytes": 64},
            {"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 2},
            {"kind": "copy", "direction": "host_to_device", "bytes": 64}])
        kinds = [[line["cost"]["kind"] for line in answers[number] if "cost" in line] for number in range(8)]
        self.assertEqual(kinds, [
            ["operator_forward", "operator_backward", "operator_stored_bytes", "operator_working_bytes"],
            ["optimizer_step"], ["collective"], ["collective"], ["collective"],
            ["overlap_computation", "overlap_communication"], ["process_bytes"], ["point_to_point"]])
        for number in range(8):
            self.assertEqual(answers[number][-1], {"item_done": number})
            for line in answers[number][:-1]:
                self.assertTrue(all(isinstance(value, int) and value > 0 for value in line["values"]), line)
        self.assertIn("one rank each", answers[8][0]["error"])
        self.assertIn("kind must be one of", answers[9][0]["error"])

    @unittest.skipUnless(os.environ.get("TRIMTAB_TEST_LONG") == "1", "TRIMTAB_TEST_LONG=1 runs it")
    def test_groups_of_a_part_of_the_ranks(self):
        """Replicas of a pipeline's stage are neighbours. Of three ranks one has no pair, and keeps step."""
        reduce = {"kind": "collective", "primitive": "all_reduce", "bytes": 4096}
        for rank in self.ask([{**reduce, "group_size": 2}, {**reduce, "group_size": 3}, {**reduce, "group_size": 2, "placement": "inter_node"},
                              {"kind": "point_to_point", "bytes": 65536}], ranks=4):
            self.assertEqual((rank[0][0]["cost"]["group_size"], rank[3][0]["cost"]["subject"]), (2, "send_recv"))
            self.assertIn("a number that divides them, found 3", rank[1][0]["error"])
            self.assertIn("of 4 ranks not every 2 neighbours lie inter_node", rank[2][0]["error"])
        self.folder.cleanup()
        self.setUp()
        answers = self.ask([{"kind": "point_to_point", "bytes": 64}], ranks=3)
        self.assertEqual([len(rank[0]) for rank in answers], [2, 2, 1])


if __name__ == "__main__":
    unittest.main()
