"""The describe and benchmark commands keep to their contracts."""
import json
import os
import tempfile
import unittest
import unittest.mock

from harness import OPERATORS, TRAINER, JobTest
from rank_programs import Program

import benchmark_items
from benchmark_items import blocks_of, nodes_of

KEYS = ["embedding-v64-h32-t16", "attention-a4-h32-t16", "feedforward-h32-t16", "head-v64-h32-t16"]
ITEMS = [
    {"kind": "process"},
    {"kind": "operator", "cost_key": "attention-a4-h32-t16", "dtype": "float32", "samples": 2, "tp": 1,
     "sharding": "default"},
    {"kind": "operator", "cost_key": "head-v64-h32-t16", "dtype": "float32", "samples": 1},
    {"kind": "optimizer", "cost_key": "embedding-v64-h32-t16", "dtype": "float32"},
    {"kind": "collective", "primitive": "all_reduce", "bytes": 4096, "group_size": 2},
    {"kind": "collective", "primitive": "broadcast", "bytes": 4096, "group_size": 2},
    {"kind": "collective", "primitive": "all_gather", "bytes": 4096, "group_size": 2},
    {"kind": "point_to_point", "bytes": 65536},
    {"kind": "overlap", "primitive": "all_reduce", "bytes": 65536, "group_size": 2,
     "cost_key": "feedforward-h32-t16", "dtype": "float32", "samples": 1},
    {"kind": "operator", "cost_key": "feedforward-h32-t16", "dtype": "float32", "samples": 1, "tp": 4},
    {"kind": "operator", "cost_key": "no-such-operator", "dtype": "float32", "samples": 1},
    {"kind": "collective", "primitive": "all_reduce", "bytes": 4096, "group_size": 3},
    {"kind": "teleport"},
    *({"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 2} for key in KEYS),
    {"kind": "collective", "primitive": "reduce_scatter", "bytes": 4092, "group_size": 2},
    {"kind": "collective", "primitive": "all_to_all", "bytes": 4096, "group_size": 2},
    {"kind": "optimizer", "cost_key": "embedding-v64-h32-t16", "dtype": "float32", "placement": "host"},
    {"kind": "optimizer", "cost_key": "embedding-v64-h32-t16", "dtype": "float32", "placement": "moon"},
    *({"kind": "operator", "cost_key": key, "dtype": "float32", "samples": 2, "tp": 2, "sharding": "sequence"} for key in KEYS),
    {"kind": "operator", "cost_key": KEYS[1], "dtype": "float32", "samples": 2, "sharding": "context-2"},
    {"kind": "operator", "cost_key": KEYS[1], "dtype": "float32", "samples": 2, "tp": 2, "sharding": "sequence-context-2"},
    {"kind": "operator", "cost_key": KEYS[1], "dtype": "float32", "samples": 2, "sharding": "spiral"},
]
OPERATOR = ["operator_forward", "operator_backward", "operator_stored_bytes", "operator_working_bytes"]
WANTED = {
    0: ["process_bytes", "step_overhead"],
    1: OPERATOR, 2: OPERATOR,
    3: ["optimizer_step"], 4: ["collective"], 5: ["collective"], 6: ["collective"], 7: ["point_to_point"],
    8: ["overlap_computation", "overlap_communication"], 9: [], 10: [], 11: [], 12: [],
    **{item: [*OPERATOR, "operator_parameter_bytes"] for item in range(13, 17)}, 17: ["collective"], 18: ["collective"],
    19: ["optimizer_step"], 20: [],
    **{item: [*OPERATOR, "operator_parameter_bytes"] for item in range(21, 25)}, 25: OPERATOR, 26: [], 27: [],
}


class Commands(JobTest):
    def describe(self, config):
        """(exit status, output, errors)"""
        program = Program([os.path.join(TRAINER, "describe.py"), "--config", config], os.path.join(self.folder, "describe"))
        output, errors = program.communicate(timeout=60)
        return program.returncode, output, errors

    def test_describe_prints_the_model(self):
        status, output, errors = self.describe(self.config)
        self.assertEqual(status, 0, errors)
        model = json.loads(output)
        self.assertEqual(model["schema"], "trimtab.model/1")
        self.assertEqual(model["microbatch_values"]["total"], [1, 2, 3, 4, 6, 12])
        self.assertEqual(len(model["operators"]), OPERATORS)
        self.assertEqual(model["recompute_unit"], "operator", "passes.py keeps the input of each recomputed operator")
        keys = [operator["cost_key"] for operator in model["operators"]]
        self.assertEqual(len(set(keys)), 4, "equal layers share their costs")
        for operator in model["operators"]:
            self.assertGreater(operator["parameter_bytes"], 0)
            self.assertGreaterEqual(operator["activation_bytes"], operator["output_bytes"])
        # 16 tokens: softmaxed logits (64 wide), and what the norm before them keeps.
        self.assertGreater(model["operators"][-1]["activation_bytes"], 16 * 64 * 4)

    def test_describe_of_a_missing_file_exits_with_2(self):
        status, _, errors = self.describe("/nowhere.toml")
        self.assertEqual(status, 2)
        self.assertIn("/nowhere.toml", errors)

    def test_benchmark_answers_every_item_on_every_rank(self):
        requests = self.write("requests.json", {
            "schema": "trimtab.benchmark_requests/1", "relative_error": 0.2, "min_repetitions": 3,
            "max_repetitions": 6, "items": ITEMS})
        outputs = self.benchmark(requests, [0, 0])
        for output in outputs:
            lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            for item, kinds in WANTED.items():
                costs = [line for line in lines if line.get("item") == item and "cost" in line]
                self.assertEqual([line["cost"]["kind"] for line in costs], kinds)
                for line in costs:
                    self.assertTrue(all(type(value) is int and value > 0 for value in line["values"]), line)
                    self.assertLessEqual(len(line["values"]), 6)
                answered = {"item_done": item} in lines
                failed = any(line.get("item") == item and "error" in line for line in lines)
                self.assertNotEqual(answered, failed)
                self.assertEqual(failed, not kinds)
            by_kind = {line["cost"]["kind"]: line for line in lines if "cost" in line}
            self.assertGreaterEqual(min(by_kind["overlap_computation"]["values"]), 1_000_000)
            self.assertEqual(by_kind["collective"]["cost"]["group_size"], 2)
            self.assert_a_share_is_smaller(lines)

    def assert_a_share_is_smaller(self, lines):
        """Of attention, at 2 ranks: half of what is split, and all of the rest."""
        def value(item, kind):
            return next(line["values"][0] for line in lines
                        if line.get("item") == item and line.get("cost", {}).get("kind") == kind)

        self.assertLess(value(14, "operator_stored_bytes"), value(1, "operator_stored_bytes"))
        # What tensor parallelism leaves whole is shared, and keys and values of others are not kept.
        for item in (22, 25):
            self.assertLess(value(item, "operator_stored_bytes"), 0.6 * value(1, "operator_stored_bytes"))
        self.assertEqual(value(14, "operator_parameter_bytes"), 4 * ((4 * 32 * 32 + 3 * 32) // 2 + 3 * 32))

    def test_links_between_nodes_are_measured_between_ranks_of_different_nodes_alone(self):
        items = [{"kind": kind, "primitive": "all_reduce", "group_size": 2, "bytes": 4096, **where}
                 for kind in ("collective", "point_to_point") for where in ({"placement": "inter_node"}, {})]
        requests = self.write("requests.json", {
            "schema": "trimtab.benchmark_requests/1", "relative_error": 0.5, "min_repetitions": 2,
            "max_repetitions": 3, "items": items})
        for output in self.benchmark(requests, [0, 0], "--local-rank", "0"):
            lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
            self.assertEqual([line["cost"]["placement"] for line in lines if "cost" in line], ["inter_node"] * 2)
            errors = [line["error"] for line in lines if "error" in line]
            self.assertEqual(errors, ["no 2 ranks are intra_node: the nodes have 1, 1 ranks"] * 2)

    def test_one_rank_of_each_node_measures_copies_to_and_from_the_host(self):
        items = [{"kind": "copy", "direction": direction, "bytes": 1 << 20}
                 for direction in ("host_to_device", "device_to_host", "sideways")]
        requests = self.write("requests.json", {
            "schema": "trimtab.benchmark_requests/1", "relative_error": 0.5, "min_repetitions": 2,
            "max_repetitions": 3, "items": items})
        for words, measuring in (((), [True, False]), (("--local-rank", "0"), [True, True])):
            self.folder = self.enterContext(tempfile.TemporaryDirectory())  # Ranks meet at a file, once.
            for output, measures in zip(self.benchmark(requests, [0, 0], *words), measuring):
                lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
                costs = [line["cost"] for line in lines if "cost" in line]
                self.assertEqual([cost["subject"] for cost in costs],
                                 ["host_to_device", "device_to_host"] if measures else [])
                self.assertTrue(all(cost["bytes"] == 1 << 20 and cost["kind"] == "point_to_point" for cost in costs))
                self.assertEqual([line for line in lines if "item_done" in line], [{"item_done": 0}, {"item_done": 1}])
                self.assertIn("direction must be one of", next(line["error"] for line in lines if "error" in line))

    def test_what_overlaps_is_no_longer_than_a_second(self):
        ms_per_sample, built = 400, []

        class Bench:
            config = device = None
            groups_maximum = staticmethod(lambda own: own + 100_000_000)  # Another rank is the slower one.

        def built_with(spec, config, samples, device):
            built.append(samples)
            return unittest.mock.Mock()

        with unittest.mock.patch.object(benchmark_items, "OperatorBench", built_with), \
             unittest.mock.patch.object(benchmark_items, "span_ns", lambda device, work: built[-1] * ms_per_sample * 10**6):
            benchmark_items.companion("operator", 16, Bench)
            self.assertEqual(built, [16, 2])
            built.clear()
            ms_per_sample = 5000
            benchmark_items.companion("operator", 3, Bench)
            self.assertEqual(built, [3, 1], "one is the least, however long it takes")

    def test_blocks_of_ranks(self):
        nodes = nodes_of([0, 1, 0, 1, 0])
        self.assertEqual(nodes, [[0, 1], [2, 3], [4]])
        self.assertEqual(blocks_of(nodes, 2, "intra_node"), [(0, 1), (2, 3)])
        self.assertEqual(blocks_of(nodes, 2, "inter_node"), [(0, 2), (1, 4)])
        self.assertEqual(blocks_of(nodes, 5, "inter_node"), [(0, 1, 2, 3, 4)])
        self.assertEqual(blocks_of(nodes, 3, "intra_node"), [])
        self.assertEqual(blocks_of([[0, 1, 2]], 2, "inter_node"), [])

    def test_requests_of_another_schema_exit_with_2(self):
        self.benchmark(self.write("requests.json", {"schema": "x/9", "items": []}), [2, 2])

    def benchmark(self, requests, codes, *words):
        rendezvous = f"file://{self.folder}/benchmark.rendezvous"
        processes = [Program(
            [os.path.join(TRAINER, "benchmark.py"), "--config", self.config, "--rank", str(rank), "--world-size", "2",
             "--rendezvous", rendezvous, "--requests", requests, "--pin", "off", *words],
            os.path.join(self.folder, f"benchmark.{rank}")) for rank in range(2)]
        for process in processes:
            self.addCleanup(process.kill)
        results = [process.communicate(timeout=120) for process in processes]
        self.assertEqual([process.returncode for process in processes], codes, results)
        return [output for output, _ in results]


if __name__ == "__main__":
    unittest.main()
