#include "sample_documents.hpp"

#include <algorithm>

namespace trimtab::test {

namespace {

constexpr const char* kPlan = R"({
  "schema": "trimtab.plan/1", "model": "toy-24", "global_batch": 1024, "microbatch": 4,
  "schedule": { "kind": "1f1b", "transfers": "eager", "sliced_microbatches": 2, "sub_batches": 2, "cross_pass": true,
                "recompute_after_communication": true },
  "stages": [
    { "devices": [0, 1],
      "segments": [
        { "operators": [0, 27], "dp": 1, "tp": 2, "cp": 1, "sharded": "none", "tp_consecutive": false,
          "recompute": [[3, 16]], "alternate_dimension": [[5, 6]],
          "switches": { "offload_hidden": [[4, 12]], "partition_parameters": [[0, 2]], "lazy_prefetch": [[2, 3]],
                        "economical_forward": [[1, 2]], "economical_backward": [[7, 9]], "segment_sync": [[8, 9]],
                        "offload_optimizer": true } } ] },
    { "devices": [2, 3, 4, 5],
      "segments": [ { "operators": [27, 40], "dp": 2, "tp": 1, "cp": 2, "sharded": "optimizer", "sharded_degree": 2 },
                    { "operators": [40, 55], "dp": 4 } ] } ],
  "target_knobs": { "precision": "bf16", "sequence_parallel": true, "ddp": { "bucket_bytes": 25000000 } } })";

constexpr const char* kSmallPlan = R"({"schema":"trimtab.plan/1","model":"m","global_batch":8,"microbatch":2,
  "stages":[{"devices":[0],"segments":[{"operators":[0,3]}]}]})";

constexpr const char* kModel = R"({
  "schema": "trimtab.model/1", "name": "toy-24", "global_batch": 1024, "dtype": "float16",
  "microbatch_values": { "total": [1, 2, 4, 8], "per_replica": [1, 2, 4, 8] },
  "gradient_bytes_per_parameter_byte": 1.0, "optimizer_bytes_per_parameter_byte": 6.5,
  "recompute_unit": "operator", "frees_sent_outputs": true, "launched_as": "graph",
  "operators": [
    { "name": "enc-1st-layernorm", "kind": "layernorm", "layer": 0, "cost_key": "layernorm-2048", "cut_before": true,
      "shape": { "sequence": 2048, "hidden": 2048 }, "parameter_bytes": 8192, "activation_bytes": 8388608,
      "output_bytes": 8388608, "forward_flops": 20971520, "shardings": ["default", "alternate"],
      "key_value_bytes": 4096, "replicated_activation_bytes": 4194304, "output_saved": false },
    { "name": "head", "kind": "linear", "layer": 24, "cut_before": false } ],
  "aceso": { "main_parameter_bytes_per_parameter_byte": 2.0, "recompute_headroom_bytes": 1048576000, "resharding": false, "mixed_splits": true },
  "galvatron": { "family": "t5", "overhead_ms": 60, "node": { "states_mib": 900, "activation_mib": 350 },
                 "whole": { "states_mib": 940, "activation_mib": 700 }, "first": { "states_mib": 504, "activation_mib": 250 },
                 "last": { "states_mib": 630.5 }, "microbatch_relief_mib": 140 },
  "tied_parameters": [ { "operators": [0, 1], "bytes": 4096, "copied": true } ] })";

constexpr const char* kCluster = R"({
  "schema": "trimtab.cluster/1",
  "nodes": [ { "name": "n0", "fingerprint": "00ff", "devices": 8, "memory_bytes": 29360128000, "host_memory_bytes": 1024 },
             { "name": "n1", "memory_bytes": 14680064000 } ],
  "links": [ { "level": "intra_node" }, { "level": "inter_node", "bandwidth_bytes_per_s": 1.25e9, "latency_us": 12.5 },
             { "between": ["n0", "n1"], "bandwidth_bytes_per_s": 1000000, "latency_us": 50 } ] })";

constexpr const char* kJob = R"({
  "schema": "trimtab.job/1", "name": "gpt-cpu", "mode": "auto", "delivery": "restart", "world_size": 2,
  "memory_limit_bytes": 734003200, "steps": 400, "target": "ddp", "strategy": "target", "checkpoint": "/c", "walltime_ns": 9, "hang_ns": 8, "class": "exact", "working_directory": "/srv/job",
  "initial_plan_json": "{\"schema\": \"trimtab.plan/1\"}", "model_json": "{}",
  "commands": { "describe": ["python3", "describe.py"], "benchmark": ["b", "{rank}"], "train": ["t", "--plan", "{plan}"],
                "submit": ["s", "{nodes}"] },
  "environment": { "OPENBLAS_NUM_THREADS": "1" }, "software": { "nccl": "2.28.9" },
  "knobs_hold": true,
  "knobs": { "pipeline": true, "uneven_stages": false, "microbatch": true, "data_parallel": false, "recompute": false,
             "sub_batches": true, "memory_switches": true },
  "trials": { "warmup_steps": 0, "measure_steps": 3, "blocks": 1, "candidates": 2, "max_trials": 0, "loss_check_steps": 7,
              "minimum_gain": 0.25, "deadline_ns": 1, "after": "stop" },
  "crashes": { "limit": 0, "within_ns": 7, "within_steps": 50 } })";

constexpr const char* kJobToml = R"(schema = "trimtab.job/1"
name = "gpt-cpu"
mode = "auto"
delivery = "live"
world_size = 2
memory_limit = "700MiB"
steps = 400
target = "megatron"
strategy = "target"
checkpoint = "saved"
walltime_s = 1.5
hang_s = 0.5
class = "rounding"
initial_plan = "initial.json"
model = "/models/gpt.json"
working_directory = "work"

[commands]
describe  = ["python3", "trainer/describe.py"]
benchmark = ["python3", "trainer/benchmark.py", "--rank", "{rank}"]
train     = ["python3", "trainer/train.py", "--plan", "{plan}"]

[environment]
OPENBLAS_NUM_THREADS = "1"

[software]
nccl = "2.28.9"

[knobs]
pipeline = true
uneven_stages = false
microbatch = true
data_parallel = true
recompute = true
tensor_parallel = true
sharded = true

[trials]
warmup_steps = 1
measure_steps = 4
blocks = 3
candidates = 2
max_trials = 6
minimum_gain = 0.05
deadline_s = 2.5
look_every_s = 90
lasting_s = 30
after = "stop"
loss_check_steps = 12

[crashes]
limit = 5
within_s = 90.5
within_steps = 0
)";

constexpr const char* kFingerprint = R"({"device":{"cpu":"x","cores":"2"},"environment":{"OMP_NUM_THREADS":"1"},
  "fabric":{"link":"loopback"},"software":{"torch":"1.13.1"}})";

constexpr const char* kCostKey = R"({"kind":"operator_forward","subject":"attention-h256-t128","dtype":"float32",
  "samples":2,"tp":2,"sharding":"alternate"})";

constexpr const char* kCollectiveKey = R"({"kind":"collective","subject":"all_reduce","bytes":1048576,"group_size":2})";

}  // namespace

const std::vector<SampleDocument>& sample_documents() {
  static const std::vector<SampleDocument> kDocuments{
      {DocumentKind::kPlan, kPlan},
      {DocumentKind::kPlan, kSmallPlan},
      {DocumentKind::kModel, kModel},
      {DocumentKind::kCluster, kCluster},
      {DocumentKind::kJob, kJob},
      {DocumentKind::kJobToml, kJobToml},
      {DocumentKind::kFingerprint, kFingerprint},
      {DocumentKind::kCostKey, kCostKey},
      {DocumentKind::kCostKey, kCollectiveKey},
      {DocumentKind::kStatistics, "1;3;2001;2000001;0;1000;-1:1,349:2"}};
  return kDocuments;
}

const std::string& sample(DocumentKind kind) {
  const auto& all = sample_documents();
  return std::find_if(all.begin(), all.end(), [&](const SampleDocument& document) { return document.kind == kind; })
      ->text;
}

const std::string& sample_prediction_json() {
  static const std::string kText =
      R"({"iteration_ms":51234.5,"interval_ms":[50700.1,51801.9],"computation_share_ms":40000.25,)"
      R"("communication_share_ms":10000.5,)"
      R"("communication_shares_ms":{"collectives":7000.0,"gradients":2000.5,"transfers":1000.0},)"
      R"("overlap_share_ms":120.25,"bubble_share_ms":900.5,"feasible":false,)"
      R"("infeasible_reason":"stage 0 needs 812 MiB of 700 MiB",)"
      R"("stages":[{"forward_ms":1.5,"backward_ms":2.25,"recompute_ms":0.125,"exposed_communication_ms":0.2,)"
      R"("gradient_sync_ms":4.5,"optimizer_ms":0.5,"bubble_ms":3.1,)"
      R"("terms":{"computation_ms":5.5,"collectives_ms":0.25,"gradients_ms":4.0,"transfers_ms":0.75,"idle_ms":3.0},)"
      R"("memory_bytes":21474836480,)"
      R"("memory":{"states":1,"activations":2,"recompute_peak":3,"reserved":5,"working":4}}],)"
      R"("bottleneck":{"stage":0,"resource":"memory"},"missing_costs":["operator_forward a float32"],)"
      R"("estimated_costs":["point_to_point send_recv"]})";
  return kText;
}

Prediction sample_prediction() {
  Prediction prediction;
  prediction.iteration_ms = 51234.5;
  prediction.interval_low_ms = 50700.1;
  prediction.interval_high_ms = 51801.9;
  prediction.computation_share_ms = 40000.25;
  prediction.communication_share_ms = 10000.5;
  prediction.communication_shares = {7000, 2000.5, 1000};
  prediction.overlap_share_ms = 120.25;
  prediction.bubble_share_ms = 900.5;
  prediction.feasible = false;
  prediction.infeasible_reason = "stage 0 needs 812 MiB of 700 MiB";
  prediction.stages = {{1.5, 2.25, 0.125, 0.2, 4.5, 0.5, 3.1, {5.5, 0.25, 4, 0.75, 3}, 21474836480, {1, 2, 3, 5, 4}}};
  prediction.bottleneck = {0, "memory"};
  prediction.missing_costs = {"operator_forward a float32"};
  prediction.estimated_costs = {"point_to_point send_recv"};
  return prediction;
}

}  // namespace trimtab::test
