// What Megatron-LM's own arithmetic says of a rank's memory, of models that are extracted from its arguments:
// parameters and states from its source, activations from Korthikanti et al., "Reducing Activation Recomputation in
// Large Transformer Models" (2022), equations 1, 2 and 4.

#include <catch2/catch.hpp>
#include <set>

#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "tuner/cost_model.hpp"

namespace trimtab::tuner {
namespace {

double gib(Bytes bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

Model model_of(const std::string& arguments) {
  return model_from_megatron(shell_words(arguments, "test").value(), "gpt").value().model;
}

Model gpt3_175b() {
  return model_of(
      "--num-layers 96 --hidden-size 12288 --num-attention-heads 96 --seq-length 2048 --max-position-embeddings 2048 "
      "--vocab-size 50257 --make-vocab-size-divisible-by 128 --tensor-model-parallel-size 8 --global-batch-size 1536 "
      "--bf16");
}

// s b h of one sample.
constexpr double kSbh = 2048.0 * 12288;

// Equal stages of whole layers, the embedding before the first and the head behind the last.
Plan pipeline(const Model& model, std::int32_t stages, std::int32_t dp, std::int32_t tp, std::int32_t microbatch) {
  Plan plan;
  plan.model = model.name;
  plan.global_batch = model.global_batch;
  plan.microbatch = microbatch;
  const auto operators = static_cast<std::int32_t>(model.operators.size());
  const std::int32_t each = (operators - 2) / stages;
  std::int32_t device = 0;
  for (std::int32_t s = 0; s < stages; ++s) {
    Segment segment;
    segment.operators = {s == 0 ? 0 : 1 + s * each, s + 1 == stages ? operators : 1 + (s + 1) * each};
    segment.dp = dp;
    segment.tp = tp;
    Stage stage;
    for (std::int32_t i = 0; i < dp * tp; ++i) stage.devices.push_back(device++);
    stage.segments = {segment};
    plan.stages.push_back(stage);
  }
  return plan;
}

Cluster cluster_of(const Plan& plan) {
  Cluster cluster;
  const std::int32_t devices = plan.stages.back().devices.back() + 1;
  for (std::int32_t i = 0; i < (devices + 7) / 8; ++i) {
    Node node;
    node.name = "n" + std::to_string(i);
    node.devices = std::min(8, devices);
    node.memory_bytes = 80'000'000'000;
    cluster.nodes.push_back(node);
  }
  cluster.links = {{"intra_node", std::nullopt, 450e9, 5}, {"inter_node", std::nullopt, 50e9, 10}};
  return cluster;
}

// A millisecond for each pass. Of memory nothing is measured: bytes are the model's.
std::vector<Cost> times_of(const Model& model) {
  std::set<std::string> subjects;
  for (const Operator& op : model.operators) subjects.insert(op.cost_key);
  std::vector<Cost> costs;
  for (const std::string& subject : subjects) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward}) {
      for (const std::int32_t samples : {1, 4}) {
        Cost cost;
        cost.key.kind = kind;
        cost.key.subject = subject;
        cost.key.dtype = model.dtype;
        cost.key.samples = samples;
        cost.statistics.add(1'000'000);
        costs.push_back(std::move(cost));
      }
    }
  }
  return costs;
}

StageMemory memory_of(const Model& model, const Plan& plan, std::size_t stage) {
  const auto table = CostTable::build(model, cluster_of(plan), times_of(model), {.allow_estimates = true});
  return NativeCostModel(table.value()).evaluate(plan).stages.at(stage).memory;
}

TEST_CASE("GPT-345M on eight replicas has 18 bytes of states for each of its parameters, tied ones once") {
  const Model model = model_of(
      "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024 "
      "--vocab-size 50257 --global-batch-size 512 --bf16 --tensor-model-parallel-size 1");
  const StageMemory memory = memory_of(model, pipeline(model, 1, 8, 1, 32), 0);
  CHECK(memory.states == Bytes{354'871'296} * 18);
  CHECK(gib(memory.states) == Approx(5.95).epsilon(1e-3));
}

TEST_CASE("fully recomputed layers of GPT-3 keep one input each, and the peak is one layer's") {
  const Model model = gpt3_175b();
  Plan plan = pipeline(model, 8, 8, 8, 8);
  for (Stage& stage : plan.stages) stage.segments[0].recompute = {stage.operators()};
  plan.stages.front().segments[0].recompute = {{1, 25}};
  plan.stages.back().segments[0].recompute = {{169, 193}};
  const StageMemory second = memory_of(model, plan, 1);
  // Seven microbatches in flight, twelve layers of 2 s b h.
  CHECK(static_cast<double>(second.activations) == Approx(7 * 12 * 2 * kSbh));
  CHECK(gib(second.activations) == Approx(3.94).epsilon(1e-3));
  CHECK(static_cast<double>(second.recompute_peak) == Approx((10 + 24 / 8.0) * kSbh));
  CHECK(gib(second.recompute_peak) == Approx(0.3).epsilon(0.05));
  // The first stage holds one more, each with the embedding's mask.
  CHECK(static_cast<double>(memory_of(model, plan, 0).activations) == Approx(8 * (12 * 2 + 1) * kSbh));
}

TEST_CASE("without sequence parallelism tensor-parallel ranks store s b h (10 + 24 / t) of a layer") {
  const Model model = gpt3_175b();
  const Plan plan = pipeline(model, 16, 8, 8, 8);
  // Six layers and the embedding's mask; what goes to the next stage is freed.
  const double first = static_cast<double>(memory_of(model, plan, 0).activations);
  CHECK(first == Approx(16 * (6 * (10 + 24 / 8.0) + 1) * kSbh));
  CHECK(gib(static_cast<Bytes>(first)) == Approx(29.6).epsilon(2e-3));
  for (const std::int32_t tp : {1, 2, 4, 8}) {
    const double second = static_cast<double>(memory_of(model, pipeline(model, 16, 8, tp, 8), 1).activations);
    CHECK(second == Approx(15 * 6 * (10 + 24.0 / tp) * kSbh));
  }
}

TEST_CASE("with sequence parallelism tensor-parallel ranks store s b h 34 / t of a layer") {
  const Model model = gpt3_175b();
  for (const std::int32_t tp : {2, 4, 8}) {
    Plan plan = pipeline(model, 16, 8, tp, 8);
    plan.target_knobs["sequence_parallel"] = "true";
    const double second = static_cast<double>(memory_of(model, plan, 1).activations);
    CHECK(second == Approx(15 * 6 * (34.0 / tp) * kSbh));
  }
}

TEST_CASE("an older model.json, without what tensor parallelism leaves whole, is at least not divided by all ranks") {
  Model model = gpt3_175b();
  for (Operator& op : model.operators) op.replicated_activation_bytes.reset();
  const double second = static_cast<double>(memory_of(model, pipeline(model, 16, 8, 8, 8), 1).activations);
  // Each of a layer's two parts keeps 4 s b h whole: its output, and the input of its first product.
  CHECK(second == Approx(15 * 6 * (8 + 26 / 8.0) * kSbh));
}

}  // namespace
}  // namespace trimtab::tuner
