// Ranks that share each sample's sequence: sequence and context parallelism, against numbers worked out by hand.

#include "native/stage/sequence_costs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "../world.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMs = 1000000;

void measure(test::World& world, const std::string& cost_key, std::int32_t tp, std::int64_t forward_ms,
             std::int64_t stored, const std::string& sharding = "default") {
  const auto put = [&](CostKind kind, std::int64_t value) {
    CostKey key = test::operator_key(kind, cost_key, 2);
    key.tp = tp;
    key.sharding = sharding;
    world.costs.push_back(test::exact_cost(key, value));
  };
  put(CostKind::kOperatorForward, forward_ms * kMs);
  put(CostKind::kOperatorBackward, 2 * forward_ms * kMs);
  put(CostKind::kOperatorStoredBytes, stored);
  put(CostKind::kOperatorWorkingBytes, 80);
}

// An all-reduce takes 2 ms and one for each 1000 bytes, a reduce-scatter and an all-gather 1 and one, a message one for
// each 1000 bytes.
void add_links(test::World& world) {
  for (const std::int64_t bytes : {1, 1000000}) {
    world.costs.push_back(test::exact_cost(test::link_key(CostKind::kPointToPoint, bytes), bytes * 1000));
    for (std::int32_t group = 2; group <= world.cluster.devices(); group *= 2) {
      for (const char* const primitive : {"all_reduce", "reduce_scatter", "all_gather"}) {
        CostKey key = test::link_key(CostKind::kCollective, bytes, group);
        key.subject = primitive;
        const std::int64_t latency = key.subject == "all_reduce" ? 2 : 1;
        world.costs.push_back(test::exact_cost(key, latency * kMs + bytes * 1000));
      }
    }
  }
}

// An attention and an mlp in steps of two samples: alone each takes 30 ms forward and 60 backward and stores 200 bytes,
// on two tensor-parallel ranks 20, 40 and 120.
test::World layer_on(std::int32_t devices, std::int32_t layers = 1) {
  std::vector<test::OperatorTruth> operators;
  for (std::int32_t i = 0; i < 2 * layers; ++i) {
    test::OperatorTruth of;
    of.cost_key = i % 2 == 0 ? "attention" : "mlp";
    of.output_bytes = 1000;
    operators.push_back(of);
  }
  test::World world = test::make_world(operators, devices, 4, {});
  for (Operator& op : world.model.operators) {
    op.kind = op.cost_key;
    op.shape["sequence"] = 64;
  }
  for (const char* const key : {"attention", "mlp"}) {
    measure(world, key, 1, 30, 200);
    measure(world, key, 2, 20, 120);
  }
  add_links(world);
  return world;
}

Plan plan_of(const test::World& world, std::int32_t dp, std::int32_t tp, std::int32_t cp, bool sequence) {
  const auto operators = static_cast<std::int32_t>(world.model.operators.size());
  Plan plan = test::make_plan(world.model, std::min(2 * dp, 4), {operators}, {dp * tp * cp});
  Segment& segment = plan.stages[0].segments[0];
  segment.dp = dp;
  segment.tp = tp;
  segment.cp = cp;
  if (sequence) plan.target_knobs["sequence_parallel"] = "true";
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  return plan;
}

Prediction predict(const test::World& world, const Plan& plan, bool estimates = true) {
  const NativeCostModel model(world.table(estimates));
  CHECK(model.unpriced(plan).empty());
  return model.evaluate(plan);
}

bool any_contains(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

TEST_CASE("under sequence parallelism a reduce-scatter and an all-gather stand for each all-reduce") {
  const test::World world = layer_on(2);
  const Prediction prediction = predict(world, plan_of(world, 1, 2, 1, true));
  CHECK(prediction.missing_costs.empty());
  const StagePrediction& stage = prediction.stages[0];
  // Of 2000 bytes: 20 ms less the all-reduce's 4 are computed; a reduce-scatter takes 3, an all-gather of half 2.
  CHECK(stage.forward_ms == Approx(2 * (16 + 3 + 2)));
  CHECK(stage.backward_ms == Approx(2 * (36 + 3 + 2)));
  // Half of what a rank alone stores, where tensor parallelism leaves 120.
  CHECK(stage.memory.activations == 2 * 100);
  CHECK(predict(world, plan_of(world, 1, 2, 1, false)).stages[0].memory.activations == 2 * 120);
  CHECK(any_contains(prediction.estimated_costs,
                     "operator_forward attention float32 samples=2 tp=2 sequence "
                     "(benchmark: operator attention with 2 samples on 2 ranks, sequence)"));
}

TEST_CASE("what tensor-parallel ranks compute is no less than a rank's share") {
  test::World world = layer_on(2);
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.subject == "mlp" && cost.key.tp == 2; });
  measure(world, "mlp", 2, 17, 120);
  // 17 ms less 4 would be less than half of 30.
  CHECK(predict(world, plan_of(world, 1, 2, 1, true)).stages[0].forward_ms == Approx(16 + 5 + 15 + 5));
}

TEST_CASE("context-parallel ranks compute a part each beside the exchange of keys and values") {
  test::World world = layer_on(2);
  const Plan plan = plan_of(world, 1, 1, 2, false);
  // Keys and values are twice the output, 4000 bytes of 2 samples. The all-gather of 2000 takes 3 ms beside 15.
  Prediction prediction = predict(world, plan);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.stages[0].forward_ms == Approx(15 + 15));
  CHECK(prediction.stages[0].backward_ms == Approx(30 + 30));
  CHECK(prediction.stages[0].memory.activations == 100 + 100);
  // Half of the working memory, and two parts of keys and values.
  CHECK(prediction.stages[0].memory.working == 40 + 2 * 2000);
  // 20 times as long: the all-gather takes 1 + 40 ms; beside the backward pass of 30 also the reduce-scatter, 1 + 80.
  world.model.operators[0].key_value_bytes = 40000;
  prediction = predict(world, plan);
  CHECK(prediction.stages[0].forward_ms == Approx(41 + 15));
  CHECK(prediction.stages[0].backward_ms == Approx(41 + 81 + 30));
  // Computing and the exchange slow each other down: 12 of 15 ms are computed in the exchange's 15 (10 * 1.5), ...
  world.model.operators[0].key_value_bytes = 9000;
  for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
    const std::int64_t slowdown = kind == CostKind::kOverlapComputation ? 1250000 : 1500000;
    world.costs.push_back(test::exact_cost(test::link_key(kind, 1000, 2), slowdown));
  }
  // ... and 3 after it.
  CHECK(predict(world, plan).stages[0].forward_ms == Approx(15 + 3 + 15));
}

TEST_CASE("both at once divide the all-reduces' bytes and the keys and values too") {
  const test::World world = layer_on(4);
  const Prediction prediction = predict(world, plan_of(world, 1, 2, 2, true));
  // 16 ms over two; of 1000 bytes of output a reduce-scatter takes 2, an all-gather of 500 1.5.
  CHECK(prediction.stages[0].forward_ms == Approx(2 * (8 + 2 + 1.5)));
  CHECK(prediction.stages[0].memory.activations == 2 * 50);
}

TEST_CASE("context-parallel ranks are replicas of parameters") {
  test::World world = layer_on(4);
  for (Operator& op : world.model.operators) op.parameter_bytes = 4000;
  for (Cost& cost : world.costs) {
    if (cost.key.kind == CostKind::kOptimizerStep) cost = test::exact_cost(cost.key, 8 * kMs);
  }
  Plan plan = plan_of(world, 2, 1, 2, false);
  // Gradients of the first operator, last in the backward pass, over all four ranks: 2 + 4 ms after it.
  Prediction prediction = predict(world, plan);
  CHECK(prediction.stages[0].gradient_sync_ms == Approx(6));
  CHECK(prediction.stages[0].memory.states == 2 * 4 * 4000);
  CHECK(prediction.stages[0].optimizer_ms == Approx(16));
  plan.stages[0].segments[0].sharded = ShardedLevel::kOptimizer;
  prediction = predict(world, plan);
  // A reduce-scatter over four, 1 + 4 ms, and two all-gathers of a fourth, 1 + 1 ms each.
  CHECK(prediction.stages[0].gradient_sync_ms == Approx(5 + 2 * 2));
  CHECK(prediction.stages[0].memory.states == 2 * (2 * 4000 + 2 * 1000));
  CHECK(prediction.stages[0].optimizer_ms == Approx(4));
}

TEST_CASE("stages send each other parts of sequences") {
  const test::World world = layer_on(8, 2);
  const auto sent_ms = [&](std::int32_t tp, std::int32_t cp, bool sequence) {
    Plan plan = test::make_plan(world.model, 2, {2, 4}, {4, 4});
    for (Stage& stage : plan.stages) {
      stage.segments[0].dp = 4 / (tp * cp);
      stage.segments[0].tp = tp;
      stage.segments[0].cp = cp;
    }
    plan.microbatch = 2 * plan.stages[0].segments[0].dp;
    if (sequence) plan.target_knobs["sequence_parallel"] = "true";
    const NativeCostModel model(world.table(true));
    double ms = 0;
    for (const TimelineEvent& event : model.timeline(plan)) {
      if (event.kind == EventKind::kTransfer) ms = event.end_ms - event.begin_ms;
    }
    return ms;
  };
  CHECK(sent_ms(2, 1, false) == Approx(2));
  CHECK(sent_ms(2, 1, true) == Approx(1));
  CHECK(sent_ms(2, 2, false) == Approx(1));
  CHECK(sent_ms(2, 2, true) == Approx(0.5));
}

TEST_CASE("costs measured on ranks that share sequences are taken as they are") {
  test::World world = layer_on(2);
  const Plan plan = plan_of(world, 1, 1, 2, false);
  const Prediction unmeasured = predict(world, plan, false);
  REQUIRE(unmeasured.missing_costs.size() == 8);
  CHECK(any_contains(unmeasured.missing_costs,
                     "operator_backward mlp float32 samples=2 tp=1 context-2 "
                     "(benchmark: operator mlp with 2 samples, context-2)"));
  measure(world, "attention", 1, 19, 130, "context-2");
  measure(world, "mlp", 1, 16, 110, "context-2");
  const Prediction prediction = predict(world, plan, false);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.stages[0].forward_ms == Approx(19 + 16));
  CHECK(prediction.stages[0].backward_ms == Approx(38 + 32));
  CHECK(prediction.stages[0].memory.activations == 130 + 110);
  CHECK(prediction.stages[0].memory.working == 80);
  // They say nothing of another way to share.
  CHECK(predict(world, plan_of(world, 1, 2, 1, true), false).missing_costs.size() == 8);
}

TEST_CASE("without a word on keys and values nothing is made up, nor over two nodes") {
  test::World world = layer_on(2);
  const Plan plan = plan_of(world, 1, 1, 2, false);
  for (Operator& op : world.model.operators) op.kind = "layer";
  CHECK(any_contains(predict(world, plan).missing_costs, "cp=2: the model's key_value_bytes"));
  world = layer_on(2);
  measure(world, "attention", 1, 19, 130, "context-2");
  measure(world, "mlp", 1, 16, 110, "context-2");
  world.cluster.nodes[0].devices = 1;
  world.cluster.nodes.push_back(world.cluster.nodes[0]);
  world.cluster.nodes[1].name = "n1";
  CHECK(any_contains(predict(world, plan, false).missing_costs, "cp=2 over two nodes"));
}

TEST_CASE("what cannot share sequences is refused, and what is not priced beside it is named") {
  test::World world = layer_on(4);
  const NativeCostModel model(world.table(true));
  const auto broken = [&](const Plan& plan) { return validate(plan, world.model, world.cluster); };
  Plan plan = plan_of(world, 1, 2, 2, true);
  for (Operator& op : world.model.operators) op.shape["sequence"] = 66;
  REQUIRE(broken(plan).size() == 1);
  CHECK_THAT(broken(plan)[0], Catch::Contains("stages[0].segments[0]: ranks share each sequence in 4 equal parts (cp * "
                                              "tp), but that of operator 0 (operator-0) is 66 long"));
  plan.target_knobs.clear();
  CHECK(broken(plan).empty());
  plan = plan_of(world, 4, 1, 1, false);
  plan.target_knobs["sequence_parallel"] = "true";
  CHECK_THAT(broken(plan).at(0), Catch::Contains("sequence_parallel: needs tp above 1"));
  plan.target_knobs["sequence_parallel"] = "1";
  CHECK_THAT(broken(plan).at(0), Catch::Contains("sequence_parallel: must be false or true, found 1"));
  plan = plan_of(world, 2, 2, 1, false);
  plan.target_knobs["sequence_parallel"] = "true";
  plan.schedule.sub_batches = 2;
  plan.stages[0].segments[0].alternate_dimension = {{0, 1}};
  plan.stages[0].segments[0].switches.offload_optimizer = true;
  const std::vector<std::string> unpriced = model.unpriced(plan);
  CHECK(any_contains(unpriced, "schedule.sub_batches: a sub-batch beside sequence parallelism"));
  CHECK(any_contains(unpriced, ".alternate_dimension: a second sharding choice beside sequence parallelism"));
  CHECK(any_contains(unpriced, ".switches: a memory switch beside sequence parallelism"));
  plan = plan_of(world, 2, 1, 2, false);
  Segment other = plan.stages[0].segments[0];
  plan.stages[0].segments[0].operators.end = 1;
  other.operators.begin = 1;
  std::swap(other.tp, other.cp);
  plan.stages[0].segments.push_back(other);
  CHECK(any_contains(model.unpriced(plan), "stages[0].segments[1]: another tp or cp than the first segment's"));
}

}  // namespace
}  // namespace trimtab::tuner
