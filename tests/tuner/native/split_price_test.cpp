// Hand-computed steps for each way to split a stage: sharding levels, tensor parallelism, layout changes, tied
// parameters.

#include <catch2/catch.hpp>

#include "tuner/cost_model.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using test::make_plan;
using test::OperatorTruth;
using test::World;

constexpr std::int64_t kMs = 1000000;

OperatorTruth truth(const std::string& key) {
  OperatorTruth of;
  of.cost_key = key;
  of.forward_ns = 1 * kMs;
  of.backward_ns = 6 * kMs;
  of.optimizer_ns = 1 * kMs;
  of.parameter_bytes = 1000;
  of.stored_bytes = 100;
  return of;
}

// An all-reduce takes 4 ms, a reduce-scatter 3, an all-gather 2, an all-to-all 5, a message 1, whatever their sizes.
void add_collectives(World& world) {
  const std::pair<const char*, std::int64_t> all[] = {
      {"all_reduce", 4}, {"reduce_scatter", 3}, {"all_gather", 2}, {"all_to_all", 5}};
  for (const std::int64_t bytes : {1, 1000000}) {
    world.costs.push_back(test::exact_cost(test::link_key(CostKind::kPointToPoint, bytes), kMs));
    for (std::int32_t group = 2; group <= world.cluster.devices(); ++group) {
      for (const auto& [primitive, ms] : all) {
        CostKey key = test::link_key(CostKind::kCollective, bytes, group);
        key.subject = primitive;
        world.costs.push_back(test::exact_cost(key, ms * kMs));
      }
    }
  }
}

void measure_split(World& world, const std::string& cost_key, std::int32_t samples, std::int32_t tp,
                   std::int64_t forward_ns, const std::string& sharding = "default") {
  const auto put = [&](CostKind kind, std::int64_t value) {
    CostKey key = test::operator_key(kind, cost_key, samples);
    key.tp = tp;
    key.sharding = sharding;
    world.costs.push_back(test::exact_cost(key, value));
  };
  put(CostKind::kOperatorForward, forward_ns);
  put(CostKind::kOperatorBackward, 2 * forward_ns);
  put(CostKind::kOperatorStoredBytes, 60);
  put(CostKind::kOperatorWorkingBytes, 0);
}

World two_equal(std::int32_t devices, std::int32_t batch) {
  World world = test::make_world({truth("a"), truth("a")}, devices, batch, {1, 2, 4});
  add_collectives(world);
  return world;
}

Prediction sharded(const World& world, ShardedLevel level, std::int32_t dp, std::int32_t degree = 0) {
  Plan plan = make_plan(world.model, dp, {2}, {dp});
  plan.stages[0].segments[0].sharded = level;
  plan.stages[0].segments[0].sharded_degree = degree;
  return NativeCostModel(world.table()).evaluate(plan);
}

TEST_CASE("each sharding level pays for its collectives and holds its share of the states") {
  const World world = two_equal(2, 2);
  // Forward 2, backward 12, the first operator's collective after it, optimizer 2.
  const Prediction none = sharded(world, ShardedLevel::kNone, 2);
  CHECK(none.iteration_ms == Approx(2 + 12 + 4 + 2));
  CHECK(none.stages[0].memory.states == 2 * 4000);
  // A reduce-scatter after the backward pass, half of the optimizer, two gathers after it.
  const Prediction optimizer = sharded(world, ShardedLevel::kOptimizer, 2);
  CHECK(optimizer.iteration_ms == Approx(2 + 12 + 3 + 1 + 4));
  CHECK(optimizer.stages[0].optimizer_ms == Approx(1));
  CHECK(optimizer.stages[0].gradient_sync_ms == Approx(3 + 4));
  CHECK(optimizer.stages[0].memory.states == 2 * 3000);
  const Prediction gradients = sharded(world, ShardedLevel::kGradients, 2);
  CHECK(gradients.iteration_ms == Approx(2 + 12 + 3 + 1 + 4));
  CHECK(gradients.stages[0].memory.states == 2 * 2500);
  // Forward: a gather of 2, a forward of 1 beside the next gather, 1 more of that, a forward of 1. Backward: a gather,
  // then everything hides but the last reduce-scatter.
  const Prediction parameters = sharded(world, ShardedLevel::kParameters, 2);
  CHECK(parameters.iteration_ms == Approx((2 + 1 + 1 + 1) + (2 + 12 + 3) + 1));
  CHECK(parameters.stages[0].exposed_communication_ms == Approx(3 + 5));
  CHECK(parameters.stages[0].memory.states == 2 * 2000);
  // A whole gradient and two operators' whole parameters.
  CHECK(parameters.stages[0].memory.reserved == 1000 + 2000);
  for (const Prediction* const one : {&none, &optimizer, &gradients, &parameters}) {
    CHECK(one->missing_costs.empty());
  }
}

TEST_CASE("sharded gradients are scattered in every microbatch, sharded optimizers once a step") {
  const World world = two_equal(2, 4);
  CHECK(sharded(world, ShardedLevel::kOptimizer, 2).iteration_ms == Approx(2 * (2 + 12) + 3 + 1 + 4));
  CHECK(sharded(world, ShardedLevel::kGradients, 2).iteration_ms == Approx(2 * (2 + 12 + 3) + 1 + 4));
  CHECK(sharded(world, ShardedLevel::kParameters, 2).iteration_ms == Approx(2 * (5 + 17) + 1));
}

TEST_CASE("a target that does not gather ahead waits for each operator's parameters") {
  const World world = two_equal(2, 2);
  Plan plan = make_plan(world.model, 2, {2}, {2});
  plan.stages[0].segments[0].sharded = ShardedLevel::kParameters;
  plan.target_knobs["parameter_prefetch"] = "true";
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(5 + 17 + 1));
  plan.target_knobs["parameter_prefetch"] = "false";
  // Gathers of 2 before passes of 1; then before passes of 6, the first scatter of 3 hidden, and the last scatter.
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx((2 + 1) * 2 + (2 + 6) * 2 + 3 + 1));
  CHECK(validate(plan, world.model, world.cluster).empty());
  plan.target_knobs["parameter_prefetch"] = "\"no\"";
  CHECK_THAT(validate(plan, world.model, world.cluster).at(0), Catch::Contains("must be true or false"));
}

TEST_CASE("gradients that stay whole between microbatches are scattered once, and take their memory") {
  const World world = two_equal(2, 4);
  Plan plan = make_plan(world.model, 2, {2}, {2});
  plan.stages[0].segments[0].sharded = ShardedLevel::kParameters;
  plan.target_knobs["gradient_accumulation"] = "\"whole\"";
  const Prediction prediction = NativeCostModel(world.table()).evaluate(plan);
  // The first backward pass finds parameters and leaves gradients as they are.
  CHECK(prediction.iteration_ms == Approx(2 * 5 + 12 + 17 + 1));
  CHECK(prediction.stages[0].memory.states == 2 * 2000 + 2 * (500 + 500));
  plan.schedule.sub_batches = 2;
  plan.schedule.cross_pass = true;
  CHECK_THAT(NativeCostModel(world.table()).unpriced(plan).at(0),
             Catch::Contains("target_knobs.gradient_accumulation"));
}

TEST_CASE("replicas' gradients wait while tensor-parallel ranks reduce over the same link") {
  World world = two_equal(4, 2);
  for (Operator& op : world.model.operators) {
    op.output_bytes = 10;
    op.tensor_all_reduces = 2;
  }
  const auto measure = [&](CostKind kind, std::int64_t value) {
    CostKey key = test::operator_key(kind, "a", 1);
    key.tp = 2;
    world.costs.push_back(test::exact_cost(key, value));
  };
  measure(CostKind::kOperatorForward, 9 * kMs);
  measure(CostKind::kOperatorBackward, 11 * kMs);  // 8 of them two all-reduces
  measure(CostKind::kOperatorStoredBytes, 60);
  measure(CostKind::kOperatorWorkingBytes, 0);
  Plan plan = make_plan(world.model, 2, {2}, {4});
  plan.stages[0].segments[0].dp = plan.stages[0].segments[0].tp = 2;
  // The second operator's gradients, 4 ms, have 3 ms of the first one's backward to hide in.
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(18 + 22 + 1 + 4 + 1));
  // Where nobody says how many there are, all of it.
  for (Operator& op : world.model.operators) op.tensor_all_reduces.reset();
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(18 + 22 + 4 + 1));
  // Between nodes replicas have a link of their own.
  for (Operator& op : world.model.operators) op.tensor_all_reduces = 2;
  world.cluster.nodes.push_back(world.cluster.nodes[0]);
  for (Node& node : world.cluster.nodes) node.devices = 2;
  world.cluster.nodes[1].name = "n1";
  CostKey across = test::link_key(CostKind::kCollective, 500, 2);
  across.placement = "inter_node";
  world.costs.push_back(test::exact_cost(across, 4 * kMs));
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(18 + 22 + 4 + 1));
}

TEST_CASE("an operator that nobody timed is estimated by its flops, where estimates are allowed") {
  World world = test::make_world({truth("a"), truth("b")}, 1, 2, {1, 2});
  world.model.operators[0].forward_flops = 100;
  world.model.operators[1].forward_flops = 50;
  world.model.operators[1].activation_bytes = 10;
  std::erase_if(world.costs, [](const Cost& cost) {
    return cost.key.subject == "b" && cost.key.kind <= CostKind::kOperatorWorkingBytes;
  });
  const Plan plan = make_plan(world.model, 2, {2}, {1});
  CHECK_FALSE(NativeCostModel(world.table()).evaluate(plan).missing_costs.empty());
  const Prediction prediction = NativeCostModel(world.table(true)).evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  CHECK_FALSE(prediction.estimated_costs.empty());
  CHECK(prediction.iteration_ms == Approx(1.5 * 2 * (1 + 6) + 2));
}

TEST_CASE("shards over some of the replicas leave an all-reduce over the copies") {
  const World world = two_equal(4, 4);
  const Prediction prediction = sharded(world, ShardedLevel::kOptimizer, 4, 2);
  // 7 ms of collectives each; of operator 1's, 6 ms hide.
  CHECK(prediction.iteration_ms == Approx(2 + 12 + 1 + 7 + 1 + 4));
  CHECK(prediction.stages[0].memory.states == 2 * 3000);
  CHECK(sharded(world, ShardedLevel::kOptimizer, 4).stages[0].memory.states == 2 * 2500);
}

TEST_CASE("operators measured on several ranks cost what was measured, their collectives included") {
  World world = test::make_world({truth("a")}, 2, 2, {1, 2});
  add_collectives(world);
  measure_split(world, "a", 2, 2, 3 * kMs);
  Plan plan = make_plan(world.model, 2, {1}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  const Prediction prediction = NativeCostModel(world.table()).evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.iteration_ms == Approx(3 + 6 + 0.5));  // half of the parameters, half of the optimizer
  CHECK(prediction.stages[0].memory.states == 500 * 4);
  CHECK(prediction.stages[0].memory.activations == 60);
}

TEST_CASE("ranks that were never measured are missing by name, or an estimate with a whole all-reduce in either pass") {
  World world = test::make_world({truth("a")}, 2, 2, {1, 2});
  world.model.operators[0].output_bytes = 50;
  add_collectives(world);
  Plan plan = make_plan(world.model, 2, {1}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  const Prediction missing = NativeCostModel(world.table()).evaluate(plan);
  REQUIRE(missing.missing_costs.size() == 4);
  CHECK_THAT(missing.missing_costs[1], Catch::Contains("operator_forward a float32 samples=2 tp=2 default") &&
                                           Catch::Contains("benchmark: operator a with 2 samples on 2 ranks"));
  const Prediction estimated = NativeCostModel(world.table(true)).evaluate(plan);
  CHECK(estimated.missing_costs.empty());
  CHECK(estimated.estimated_costs.size() == 4);
  // Of one rank's 2 and 12 ms a twentieth is not divided.
  CHECK(estimated.iteration_ms == Approx((0.1 + 1.9 / 2 + 4) + (0.6 + 11.4 / 2 + 4) + 0.5));
}

// Operator 0 on dp_a x tp_a, operator 1 on dp_b x tp_b of one stage; no parameters.
Prediction mixed(std::int32_t devices, std::int32_t microbatch, std::int32_t dp_a, std::int32_t dp_b) {
  OperatorTruth a = truth("a");
  a.parameter_bytes = 0;
  a.optimizer_ns = 0;
  a.output_bytes = 1000;
  World world = test::make_world({a, a}, devices, microbatch, {1, 2, 3, 4});
  add_collectives(world);
  for (const std::int32_t dp : {dp_a, dp_b}) {
    if (dp < devices) measure_split(world, "a", microbatch / dp, devices / dp, 1500000);
  }
  Plan plan = make_plan(world.model, microbatch, {2}, {devices});
  Segment second = plan.stages[0].segments[0];
  plan.stages[0].segments[0].operators = {0, 1};
  plan.stages[0].segments[0].dp = dp_a;
  plan.stages[0].segments[0].tp = devices / dp_a;
  second.operators = {1, 2};
  second.dp = dp_b;
  second.tp = devices / dp_b;
  plan.stages[0].segments.push_back(second);
  return NativeCostModel(world.table()).evaluate(plan);
}

TEST_CASE("a layout change moves samples in the pass in which ranks lack them") {
  // Four replicas of one sample, then two of two samples on two ranks: an all-gather in the forward pass.
  const Prediction widening = mixed(4, 4, 4, 2);
  CHECK(widening.missing_costs.empty());
  CHECK(widening.stages[0].forward_ms == Approx(1 + 1.5));
  CHECK(widening.stages[0].exposed_communication_ms == Approx(2));
  CHECK(widening.iteration_ms == Approx((1 + 2 + 1.5) + (3 + 6)));
  // The other way around it is the gradients that are gathered.
  const Prediction narrowing = mixed(4, 4, 2, 4);
  CHECK(narrowing.iteration_ms == Approx((1.5 + 1) + (6 + 2 + 3)));
  // Three replicas and two: everybody exchanges, both ways.
  const Prediction exchange = mixed(6, 6, 3, 2);
  CHECK(exchange.iteration_ms == Approx((1.5 + 5 + 1.5) + (3 + 5 + 3)));
}

TEST_CASE("an operator on its second choice has its own costs and a gather at either side") {
  OperatorTruth a = truth("a");
  a.parameter_bytes = 0;
  a.optimizer_ns = 0;
  a.output_bytes = 1000;
  World world = test::make_world({a, a, a}, 2, 2, {1, 2});
  for (Operator& op : world.model.operators) op.shardings = {"default", "alternate"};
  add_collectives(world);
  measure_split(world, "a", 2, 2, 1 * kMs);
  measure_split(world, "a", 2, 2, 5 * kMs, "alternate");
  Plan plan = make_plan(world.model, 2, {3}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(3 + 6));
  plan.stages[0].segments[0].alternate_dimension = {{1, 2}};
  const Prediction prediction = NativeCostModel(world.table()).evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.iteration_ms == Approx((1 + 5 + 1) + (2 + 2 + 10 + 2 + 2)));
}

TEST_CASE("tied parameters are reduced when all their stages have synchronized, before any optimizer") {
  World world = two_equal(2, 1);
  world.model.tied_parameters.push_back({{0, 1}, 1000});
  const Plan plan = make_plan(world.model, 1, {1, 2}, {1, 1});
  const NativeCostModel model(world.table());
  const Prediction prediction = model.evaluate(plan);
  CHECK(prediction.missing_costs.empty());
  // Forwards 1 + 1, backwards 6 + 6; then the all-reduce, then the optimizers side by side.
  CHECK(prediction.iteration_ms == Approx(14 + 4 + 1));
  CHECK(prediction.stages[0].gradient_sync_ms == Approx(4));
  CHECK(prediction.communication_share_ms == Approx(4));
  double end = 0;
  for (const TimelineEvent& event : model.timeline(plan)) end = std::max(end, event.end_ms);
  CHECK(end == Approx(19));
  // Inside of one stage there is nothing to reduce.
  CHECK(model.evaluate(make_plan(world.model, 1, {2}, {1})).iteration_ms == Approx(2 + 12 + 2));
}

TEST_CASE("a replica on few ranks sends to every rank of a wider receiver") {
  OperatorTruth a = truth("a");
  a.parameter_bytes = 0;
  a.optimizer_ns = 0;
  a.output_bytes = 1000;
  World world = test::make_world({a, a}, 3, 2, {1, 2});
  add_collectives(world);
  measure_split(world, "a", 2, 2, 1 * kMs);
  Plan plan = make_plan(world.model, 2, {1, 2}, {1, 2});
  plan.stages[1].segments[0].dp = 1;
  plan.stages[1].segments[0].tp = 2;
  CHECK(NativeCostModel(world.table()).evaluate(plan).iteration_ms == Approx(2 + 2 + 1 + 2 + 2 + 12));
}

TEST_CASE("reserves of a published profile stand for working memory that was not measured") {
  World world = test::make_world({truth("a"), truth("b")}, 1, 1, {1});
  std::vector<Cost> costs;
  for (const Cost& cost : world.costs) {
    if (cost.key.kind != CostKind::kOperatorWorkingBytes) costs.push_back(cost);
  }
  const auto reserve = [&costs](const std::string& key, std::int64_t forward, std::int64_t backward) {
    costs.push_back(test::exact_cost(test::operator_key(CostKind::kOperatorForwardReserveBytes, key, 1), forward));
    costs.push_back(test::exact_cost(test::operator_key(CostKind::kOperatorBackwardReserveBytes, key, 1), backward));
  };
  reserve("a", 100, 10);
  reserve("b", 20, 300);
  world.costs = costs;
  const Prediction prediction = NativeCostModel(world.table()).evaluate(make_plan(world.model, 1, {2}, {1}));
  CHECK(prediction.missing_costs.empty());
  CHECK(prediction.stages[0].memory.working == 400);
}

}  // namespace
}  // namespace trimtab::tuner
