"""The scoreboard of published plans: how rows are read, and the arithmetic of scores. All rows are invented."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "bench", "published_plans.py")
sys.path.insert(0, os.path.join(ROOT, "bench", "scoreboard"))

from published_baselines import parameters, roofline
from published_given import given_one
from published_rows import GIB, memory_kind, read_rows, row_of
from published_scores import choice, errors, fit_counts, predicted_memory, ranks, score, spearman
from replayed_cells import Cell

COLUMNS = (
    "id family cell software gpu gpus gpus_per_node nodes inter_link inter_gbps_per_gpu model layers hidden ffn heads kv_heads head_dim "
    "vocab seq gated_mlp tied norm attention experts precision gbs mbs grad_acc tp pp vpp cp dp zero sharding sequence_parallel recompute "
    "overlap attention_kernel other outcome step_s tok_s_gpu memory_gib memory_kind oom_evidence flags"
).split()
DENSE = dict(
    family="invented", cell="invented-1", software="nanotron 0.5", gpu="H100-SXM5-80GB", gpus="8", gpus_per_node="8", nodes="1", model="small",
    layers="16", hidden="1024", ffn="4096", heads="16", kv_heads="4", head_dim="64", vocab="32000", seq="2048", gated_mlp="1", tied="0",
    norm="rmsnorm", attention="gqa", precision="bf16", gbs="64", mbs="1", grad_acc="8", tp="1", pp="1", vpp="1", cp="1", dp="8", zero="0",
    sequence_parallel="0", recompute="none", outcome="ran", step_s="2", tok_s_gpu="8192",
)  # fmt: skip


def dense(**changes):
    return row_of({**{name: "" for name in COLUMNS}, **DENSE, **changes})


def answer(step_s, fits=1.0, **memory):
    return {
        "step_s": step_s,
        "least_s": 0.8 * step_s,
        "most_s": 1.25 * step_s,
        "memory": {"allocated": 1, "reserved": 1, "process": 1, "first_allocated": 1, "fits": fits, "stages": [], **memory},
    }


class Reading(unittest.TestCase):
    def test_a_dense_row(self):
        row = dense(inter_gbps_per_gpu="400", software="llm-foundry, Composer FSDP", sharding="fsdp full_shard", zero="3")
        self.assertEqual("400G", row.question["network"])
        self.assertEqual("fsdp", row.question["plan"]["framework"])
        self.assertEqual("parameters", row.question["plan"]["sharded"])
        self.assertEqual(4, row.question["model"]["kv_heads"])
        self.assertTrue(row.clean)

    def test_nothing_measured_is_asked(self):
        asked = json.dumps(dense(step_s="1234567", tok_s_gpu="7654321", memory_gib="98765").question)
        for measured in ("1234567", "7654321", "98765"):
            self.assertNotIn(measured, asked)

    def test_a_row_with_everything_missing(self):
        for columns in ({}, {name: "" for name in COLUMNS}, {name: None for name in COLUMNS}, {name: "?" for name in COLUMNS}):
            row = row_of(columns)
            self.assertIsNone(row.question)
            self.assertNotEqual("", row.refusal)
            self.assertIsNone(row.step_s)

    def test_models_with_experts_are_a_family_of_their_own(self):
        for changes in ({"experts": "8"}, {"attention": "mla"}):
            row = dense(**changes)
            self.assertEqual("invented.experts", row.family)
            self.assertIsNone(row.question)

    def test_over_how_many_replicas_a_copy_is_divided(self):
        def plan(**changes):
            return dense(gpus="64", zero="3", **changes).question["plan"]

        self.assertEqual(16, plan(sharding="fsdp16 x dp4")["sharded_over"])
        self.assertEqual(8, plan(sharding="hsdp (shard in the node)")["sharded_over"])
        self.assertNotIn("sharded_over", plan(sharding="fsdp over all"))
        self.assertNotIn("sharded_over", plan(sharding="fsdp2 over 64"))
        self.assertFalse(plan(sharding="fsdp shard_grad_op")["reshard"])

    def test_what_is_recomputed(self):
        for words, expected in (
            ("none", "nothing"),
            ("full (every layer)", "layer"),
            ("full (checkpoint-activations)", "layer"),
            ("selective (attention core)", "attention_core"),
            ("selective (norms and MLP activation)", "activations"),
            ("selective (per-op)", "half_of_products"),
        ):
            self.assertEqual(expected, dense(recompute=words).question["plan"]["recompute"], words)
        self.assertEqual(0.25, dense(recompute="4 of 16 layers").question["plan"]["recomputed_share"])
        self.assertEqual(["what is recomputed"], dense(recompute="").assumed)

    def test_the_share_of_layers_that_fms_recomputes(self):
        words = {"software": "fms-fsdp (torch nightly, 2024)", "recompute": "selective blocks (fraction not stated)"}
        for gpu, model, share in (("A100", "34B", 1.0), ("H100", "34B", 0.87), ("H100", "70B", 0.71), ("H100", "13B", 0.21)):
            row = dense(gpu=gpu, model="Llama-2-" + model, **words)
            self.assertEqual(("layer", share), (row.question["plan"]["recompute"], row.question["plan"]["recomputed_share"]))
        self.assertEqual(0.5, dense(**words).question["plan"]["recomputed_share"])

    def test_kernels_that_are_not_fused(self):
        def unfused(**changes):
            plan = dense(**changes).question["plan"]
            return [name for name in ("fused_activation", "fused_accumulation", "switch_sums") if not plan[name]]

        self.assertEqual([], unfused())
        self.assertEqual(["fused_activation"], unfused(software="Megatron-Kwai atc24ae (Megatron-LM of 2024-01)"))
        golden = "deterministic mode; no gradient accumulation fusion; NCCL ring"
        self.assertEqual(["fused_accumulation", "switch_sums"], unfused(other=golden))

    def test_bytes_of_states(self):
        pure = dense(precision="bf16 (pure: low-precision optimizer states and gradients)").question["plan"]
        self.assertEqual((2, 4), (pure["gradient_bytes"], pure["optimizer_bytes"]))
        rows = dense(precision="fp8 rowwise (linear layers), bf16 rest").question["plan"]
        self.assertEqual(("float8", True, False), (rows["precision"], rows["rowwise_scales"], pure["rowwise_scales"]))
        old = dense(precision="fp16", software="Megatron-LM 2021-04").question["plan"]
        self.assertEqual(("float16", 2, 16), (old["precision"], old["gradient_bytes"], old["optimizer_bytes"]))

    def test_kinds_of_memory(self):
        for words, expected in (
            ("torch peak on rank 0 (first stage); allocated or reserved not stated", "first_peak"),
            ("max allocated (torch), maximum over ranks", "allocated"),
            ("max allocated (torch), logging rank", "allocated_last"),
            ("peak reserved (torch), maximum over GPUs", "reserved"),
            ("nvidia-smi, GB as printed, first/last-stage GPU", "nvidia_smi"),
            ("GPU memory in GB as printed (tool not stated)", "printed"),
        ):
            self.assertEqual(expected, memory_kind(words))


class Scoring(unittest.TestCase):
    def test_errors_by_hand(self):
        found = errors([(1.1, 1.0), (0.8, 1.0), (3.0, 2.0), (0.0, 4.0)])  # the last has no answer
        self.assertEqual(4, found["n"])
        self.assertAlmostEqual((0.1 + 0.2 + 0.5 + 1.0) / 4, found["mean"])
        self.assertAlmostEqual(0.35, found["median"])
        self.assertAlmostEqual(1.0, found["p95"])
        self.assertAlmostEqual(1.0, found["max"])
        self.assertAlmostEqual((0.1 - 0.2 + 0.5 - 1.0) / 4, found["bias"])

    def test_the_nearest_rank(self):
        self.assertAlmostEqual(0.19, errors([(1 + n / 100, 1.0) for n in range(1, 21)])["p95"])

    def test_spearman_by_hand(self):
        self.assertEqual([1.0, 2.5, 2.5, 4.0], ranks([3, 5, 5, 9]))
        self.assertAlmostEqual(1.0, spearman([1, 2, 3, 4], [10, 20, 30, 90]))
        self.assertAlmostEqual(0.8, spearman([1, 2, 3, 4], [10, 30, 20, 90]))
        self.assertEqual(0.0, spearman([1, 1, 1], [1, 2, 3]))

    def cell(self, steps, **failed):
        """Plans that ran with 100, 90, 80 ... tokens a second and were predicted to take `steps`."""
        pairs = [(dense(tok_s_gpu=str(100 - 10 * n)), {"error": "none"} if step is None else answer(step)) for n, step in enumerate(steps)]
        if failed:
            pairs.append((dense(outcome="failed", tok_s_gpu="", step_s=""), answer(**failed)))
        return pairs

    def test_a_choice_by_hand(self):
        found = choice(self.cell([3, 4, 2, 1, 5]))  # the fourth plan is chosen, then the third, then the best
        self.assertAlmostEqual(0.3, found["regret"])
        self.assertAlmostEqual(0.0, found["top3"])
        self.assertAlmostEqual(0.3, found["regret_all"])
        self.assertAlmostEqual(0.1, found["spearman"])  # 1 - 6 * (2^2 + 2^2 + 1 + 3^2) / (5 * 24)

    def test_of_equal_predictions_the_slower_plan_is_taken(self):
        self.assertAlmostEqual(0.1, choice(self.cell([1, 1, 2, 3, 4]))["regret"])

    def test_a_failed_choice(self):
        self.assertEqual(1.0, choice(self.cell([1, 2, 3, 4, 5], step_s=0.5))["regret_all"])
        self.assertEqual(0.0, choice(self.cell([1, 2, 3, 4, 5], step_s=0.5, fits=0.4))["regret_all"])
        self.assertEqual(0.0, choice(self.cell([1, 2, 3, 4, 5], step_s=0.95, fits=0.9))["regret_all"])  # 5 % faster is not worth it
        self.assertEqual(0.0, choice(self.cell([1, 2, 3, 4, 5], step_s=0.5))["regret"])

    def test_a_cell_without_answers(self):
        found = choice(self.cell([None] * 5))
        self.assertEqual((1.0, 1.0, 1.0, 0.0), (found["regret"], found["top3"], found["regret_all"], found["spearman"]))

    def test_memory_by_kind(self):
        stages = [{"allocated": 5}, {"allocated": 9}, {"parameters": 3, "gradients": 2, "optimizer": 1, "activations": 1, "peak": 0}]
        given = answer(1, allocated=9, reserved=10, process=12, first_allocated=5, stages=stages)
        self.assertEqual(5 + 1, predicted_memory(given, "first_peak"))
        self.assertEqual(8, predicted_memory(answer(1, first_reserved=8), "first_peak"))
        self.assertEqual(9, predicted_memory(given, "allocated"))
        self.assertEqual(7, predicted_memory(given, "allocated_last"))
        self.assertEqual(7 + 3, predicted_memory(given, "nvidia_smi"))
        self.assertEqual(10, predicted_memory(given, "reserved"))
        self.assertEqual(12, predicted_memory(given, "printed"))
        self.assertEqual(0, predicted_memory({"error": "none"}, "allocated"))

    def test_what_does_not_fit(self):
        rows = [dense(), dense(), dense(outcome="oom"), dense(outcome="failed"), dense(outcome="failed")]
        found = fit_counts(list(zip(rows, [answer(1), answer(1, 0.1), answer(1, 0.2), answer(1, 0.4), answer(1)])))
        self.assertEqual({"precision": 2 / 3, "recall": 2 / 3, "predicted": 3, "true": 3, "both": 2}, found)

    def test_families_flags_and_coverage(self):
        rows = [dense(), dense(flags="slow"), dense(experts="8"), dense(memory_gib="2", memory_kind="max allocated")]
        answers = [answer(2.2), answer(1), {"error": "experts"}, answer(4, allocated=GIB)]
        found = score(rows, answers)
        self.assertEqual(2, found["families"]["invented"]["clean"]["time"]["n"])
        self.assertEqual(3, found["families"]["invented"]["all"]["time"]["n"])
        self.assertAlmostEqual((0.1 + 1.0) / 2, found["families"]["invented"]["clean"]["time"]["mean"])
        self.assertAlmostEqual(-0.5, found["families"]["invented"]["all"]["memory"]["allocated"]["bias"])
        self.assertEqual(1.0, found["families"]["invented.experts"]["all"]["time"]["mean"])
        self.assertEqual({"invented": 0.5}, found["coverage"])

    def test_ultrascale_64_nodes_stand_apart(self):
        rows = [dense(family="ultrascale", cell=f"c{nodes}", nodes=nodes, tok_s_gpu=str(50 + n)) for nodes in ("2", "64") for n in range(5)]
        found = score(rows, [answer(2)] * 10)["families"]["ultrascale"]
        self.assertEqual(1, found["clean"]["cells"]["n"])
        self.assertEqual(10, found["clean"]["time"]["n"])
        self.assertEqual(1, found["nodes64"]["clean"]["cells"]["n"])
        self.assertEqual(5, found["nodes64"]["clean"]["time"]["n"])

    def test_the_roofline_by_hand(self):
        model = dense().question["model"]
        # 16 layers of 1024 * 64 * 2 * (16 + 4) and 3 * 1024 * 4096, and two matrices of 32000 * 1024
        self.assertEqual(16 * (2621440 + 12582912) + 65536000, parameters(model))
        self.assertAlmostEqual(6 * parameters(model) * 64 * 2048 / (0.4 * 989e12 * 8), roofline(dense().question))


class Replay(unittest.TestCase):
    def cell(self):
        """Microbatches 1, 2, 4, 8 with speeds 100, 99, 50 and failed. Estimates prefer 8, then 4, then 2."""
        plans = zip(("1", "2", "4", "8"), ("100", "99", "50", ""), (4, 3, 2, 1), (1.0, 1.0, 1.0, 0.1))
        return Cell(
            [
                (dense(mbs=size, tok_s_gpu=speed, step_s="2" if speed else "", outcome="ran" if speed else "failed"), answer(step, fits))
                for size, speed, step, fits in plans
            ]
        )

    def test_trials_in_the_order_of_estimates(self):
        cell = self.cell()
        self.assertEqual([4, 2, 1, 8], [knobs[2] for knobs in cell.by_estimate()])  # the one that does not fit comes last
        self.assertEqual([2, 2], cell.trials(cell.by_estimate()))

    def test_every_way_tries_every_plan_once(self):
        cell = self.cell()
        for order in (cell.at_random(3), cell.by_grid(3)):
            self.assertEqual(sorted(cell.plans), sorted(order))

    def test_a_failed_plan_is_a_trial(self):
        cell = self.cell()
        backwards = sorted(cell.plans, key=lambda knobs: -knobs[2])  # 8 failed, 4 is slow, 2 is within 2 %
        self.assertEqual([3, 3], cell.trials(backwards))


class Given(unittest.TestCase):
    def test_a_row_is_never_asked_with_itself(self):
        rows = [dense(id=str(n), step_s=str(2 + n), gbs=str(64 + 8 * n)) for n in range(3)]
        asked = []

        def answering(questions, command):
            asked.extend(questions)
            return [answer(row.step_s) for row in questions]

        found = given_one(rows, [answer(1.0)] * 3, [], answering)
        self.assertEqual(6, len(asked))
        for row in asked:
            self.assertNotEqual(row.step_s, row.question["measured"][0]["step_s"])
        self.assertEqual(1, found["invented"]["groups"])
        self.assertEqual(0.0, found["invented"]["mean"])
        self.assertAlmostEqual((1 / 2 + 2 / 3 + 3 / 4) / 3, found["invented"]["before"])


class Program(unittest.TestCase):
    """The whole script, with a program that knows one trick."""

    STAND_IN = """import json, sys
for line in open(sys.argv[-1]):
    question = json.loads(line)
    if question["model"]["name"] == "refused":
        print(json.dumps({"error": "no"}))
    elif question["model"]["name"] == "deadly":
        sys.exit("killed")
    else:
        print(json.dumps({"step_s": 1.0, "least_s": 0.5, "most_s": 3.0, "memory": {"fits": 1.0}}), flush=True)
"""

    def run_script(self, rows, directory):
        table, program = os.path.join(directory, "rows.csv"), os.path.join(directory, "trimtab")
        with open(table, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
        with open(program, "w") as file:
            file.write(f"#!{sys.executable}\n{self.STAND_IN}")
        os.chmod(program, 0o755)
        out = os.path.join(directory, "out")
        command = [sys.executable, SCRIPT, "--plans", table, "--out", out, "--trimtab", program, "--markdown", os.path.join(directory, "a.md")]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual("", done.stderr)
        with open(os.path.join(out, "score.json")) as file:
            return json.load(file), os.path.getsize(os.path.join(out, "index.html"))

    def test_any_rows(self):
        rows = [DENSE, {**DENSE, "model": "refused"}, {**DENSE, "model": "deadly"}, DENSE, {**DENSE, "experts": "8"}, {}, {"family": "empty"}]
        with tempfile.TemporaryDirectory() as directory:
            found, page = self.run_script(rows, directory)
            self.assertEqual(4, found["families"]["invented"]["all"]["time"]["n"])
            self.assertAlmostEqual((0.5 + 1 + 1 + 0.5) / 4, found["families"]["invented"]["all"]["time"]["mean"])
            self.assertEqual(0.5, found["coverage"]["invented"])
            self.assertGreater(page, 1000)

    def test_no_rows(self):
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual({}, self.run_script([], directory)[0]["families"])


if __name__ == "__main__":
    unittest.main()
