#include <catch2/catch.hpp>

#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using test::make_plan;
using test::make_world;
using test::OperatorTruth;
using test::World;

// Three operators: 100, 200 and 300 parameter bytes; stored 1000, 2000, 3000; output 100 each; working 7, 8, 9.
World three_operators(std::int32_t devices) {
  std::vector<OperatorTruth> operators;
  for (int i = 1; i <= 3; ++i) {
    OperatorTruth of;
    of.cost_key = "op" + std::to_string(i);
    of.stored_bytes = 1000 * i;
    of.output_bytes = 100;
    of.parameter_bytes = 100 * i;
    of.working_bytes = 6 + i;
    operators.push_back(of);
  }
  World world = make_world(operators, devices, 4, {1, 2, 4});
  test::add_links(world, 0, 0);
  CostKey process;
  process.kind = CostKind::kProcessBytes;
  process.subject = "process";
  world.costs.back() = world.costs.back();
  for (Cost& cost : world.costs) {
    if (cost.key.kind == CostKind::kProcessBytes) cost = test::exact_cost(process, 50000);
  }
  return world;
}

TEST_CASE("memory is states, activations in flight, recompute peak and what is reserved") {
  const World world = three_operators(1);
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}));
  const StageMemory& memory = prediction.stages[0].memory;
  CHECK(memory.states == 600 * 4);  // parameters, gradients, two optimizer moments
  CHECK(memory.activations == 6000);
  CHECK(memory.recompute_peak == 0);
  CHECK(memory.working == 9);
  CHECK(memory.reserved == 9 + 50000);
  CHECK(prediction.stages[0].memory_bytes == 2400 + 6000 + 9 + 50000);
}

TEST_CASE("earlier stages hold more microbatches, and their own input") {
  const World world = three_operators(3);
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {1, 2, 3}, {1, 1, 1}));
  CHECK(prediction.stages[0].memory.activations == 3 * 1000);
  CHECK(prediction.stages[1].memory.activations == 2 * (2000 + 100));
  CHECK(prediction.stages[2].memory.activations == 1 * (3000 + 100));
  // No more than there are microbatches.
  const Prediction one = NativeCostModel(table).evaluate(make_plan(world.model, 4, {1, 2, 3}, {1, 1, 1}));
  CHECK(one.stages[0].memory.activations == 4 * 1000);
}

TEST_CASE("a recomputed operator keeps nothing but what its neighbours need") {
  const World world = three_operators(1);
  const CostTable table = world.table();
  const NativeCostModel model(table);
  const auto activations = [&](const std::vector<Range>& recompute) {
    return model.evaluate(make_plan(world.model, 1, {3}, {1}, {recompute})).stages[0].memory.activations;
  };
  CHECK(activations({{0, 1}}) == 100 + 2000 + 3000);  // operator 1 needs operator 0's output
  CHECK(activations({{1, 2}}) == 1000 + 100 + 3000);
  CHECK(activations({{2, 3}}) == 1000 + 2000);  // nobody needs the last output
  CHECK(activations({{0, 3}}) == 100 + 100);
  const Prediction all = model.evaluate(make_plan(world.model, 1, {3}, {1}, {{{0, 3}}}));
  CHECK(all.stages[0].memory.recompute_peak == 3000);
}

TEST_CASE("neighbours of one layer that are recomputed keep their input, and come back together") {
  World world = three_operators(1);
  for (Operator& op : world.model.operators) op.layer = 0;
  const auto memory = [&](const std::vector<Range>& recompute) {
    const CostTable table = world.table();
    const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}, {recompute}));
    return std::pair(prediction.stages[0].memory.activations, prediction.stages[0].memory.recompute_peak);
  };
  CHECK(memory({{0, 2}}) == std::pair<Bytes, Bytes>(100 + 3000, 1000 + 2000));
  CHECK(memory({{1, 3}}) == std::pair<Bytes, Bytes>(1000, 2000 + 3000));
  CHECK(memory({{0, 3}}) == std::pair<Bytes, Bytes>(0, 6000));
  CHECK(memory({{0, 1}, {2, 3}}) == std::pair<Bytes, Bytes>(100 + 2000, 3000));
  // A run ends with its layer, wherever recompute goes on.
  world.model.operators[2].layer = 1;
  CHECK(memory({{0, 3}}) == std::pair<Bytes, Bytes>(100, 3000));
  // What recomputes each operator alone keeps each one's input.
  world.model.operators[2].layer = 0;
  world.model.recompute_unit = RecomputeUnit::kOperator;
  CHECK(memory({{0, 3}}) == std::pair<Bytes, Bytes>(100 + 100, 3000));
}

TEST_CASE("embedding and head are recomputed apart from the layers whose number they bear") {
  World world = three_operators(1);
  for (Operator& op : world.model.operators) op.layer = 0;
  world.model.operators[0].kind = "embedding";
  world.model.operators[2].kind = "head";
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}, {{{0, 3}}}));
  CHECK(prediction.stages[0].memory.activations == 100 + 100);
  CHECK(prediction.stages[0].memory.recompute_peak == 3000);
}

TEST_CASE("an output that no backward pass reads is kept where a run begins behind it alone") {
  World world = three_operators(1);
  for (Operator& op : world.model.operators) op.layer = 0;
  world.model.operators[1].output_saved = false;
  const auto activations = [&](const std::vector<Range>& recompute) {
    const CostTable table = world.table();
    return NativeCostModel(table)
        .evaluate(make_plan(world.model, 1, {3}, {1}, {recompute}))
        .stages[0]
        .memory.activations;
  };
  CHECK(activations({}) == 1000 + 1900 + 3000);
  CHECK(activations({{2, 3}}) == 1000 + 2000);
  CHECK(activations({{0, 2}}) == 3000);
  // Between layers it is kept: it is what the next one begins with.
  world.model.operators[2].layer = 1;
  CHECK(activations({}) == 6000);
}

TEST_CASE("what a stage has sent is kept with what is not recomputed, unless the framework frees it") {
  World world = three_operators(2);
  const auto activations = [&](const std::vector<std::vector<Range>>& recompute, std::size_t stage) {
    const CostTable table = world.table();
    const Plan plan = make_plan(world.model, 1, {2, 3}, {1, 1}, recompute);
    return NativeCostModel(table).evaluate(plan).stages[stage].memory.activations;
  };
  CHECK(activations({{}, {}}, 0) == 2 * 3000);
  CHECK(activations({{{0, 2}}, {{2, 3}}}, 0) == 2 * 100);
  CHECK(activations({{{0, 2}}, {{2, 3}}}, 1) == 100);
  world.model.frees_sent_outputs = true;
  CHECK(activations({{}, {}}, 0) == 2 * 2900);
  CHECK(activations({{}, {}}, 1) == 3000 + 100);  // the model's last output is sent nowhere
  CHECK(activations({{{0, 2}}, {{2, 3}}}, 0) == 2 * 100);
}

TEST_CASE("what the last layer stores is gone before another one is recomputed") {
  World world = three_operators(1);
  const auto peak = [&](const std::vector<Range>& recompute) {
    const CostTable table = world.table();
    const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}, {recompute}));
    return prediction.stages[0].memory.recompute_peak;
  };
  CHECK(peak({{0, 2}}) == 0);  // 2000 where 3000 were
  CHECK(peak({{0, 1}, {2, 3}}) == 3000);
  world.model.operators[1].layer = 0;
  world.model.recompute_unit = RecomputeUnit::kLayer;
  CHECK(peak({{0, 2}}) == 0);  // 3000 where 3000 were
  CHECK(peak({{0, 3}}) == 3000);
}

TEST_CASE("parameters that operators share are held once a stage") {
  World world = three_operators(2);
  world.model.tied_parameters = {{{0, 2}, 80}};
  const CostTable table = world.table();
  const NativeCostModel model(table);
  CHECK(model.evaluate(make_plan(world.model, 1, {3}, {1})).stages[0].memory.states == (600 - 80) * 4);
  const Prediction apart = model.evaluate(make_plan(world.model, 1, {2, 3}, {1, 1}));
  CHECK(apart.stages[0].memory.states == 300 * 4);
  CHECK(apart.stages[1].memory.states == 300 * 4);
  // Replicas that share the optimizer's states: two bytes of four are halved.
  Plan sharded = make_plan(world.model, 2, {3}, {2});
  sharded.stages[0].segments[0].sharded = ShardedLevel::kOptimizer;
  CHECK(model.evaluate(sharded).stages[0].memory.states == (600 - 80) * 3);
}

TEST_CASE("replicas hold their share of a microbatch and a buffer for gradients") {
  const World world = three_operators(2);
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 4, {3}, {2}));
  CHECK(prediction.stages[0].memory.activations == 2 * 6000);
  CHECK(prediction.stages[0].memory.reserved == 2 * 9 + 50000 + 300);
}

TEST_CASE("the memory factor scales activations and working memory only") {
  const World world = three_operators(1);
  const CostTable table = world.table();
  Calibration calibration;
  calibration.memory.value = 2;
  const Prediction prediction = NativeCostModel(table, calibration).evaluate(make_plan(world.model, 1, {3}, {1}));
  CHECK(prediction.stages[0].memory_bytes == 2400 + 2 * 6000 + 2 * 9 + 50000);
}

TEST_CASE("an infeasible plan says which stage, by how much, and the smallest change that fits") {
  World world = three_operators(1);
  world.cluster.nodes[0].memory_bytes = 58409 - 1000;  // 1000 bytes less than it needs
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}));
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.bottleneck.stage == 0);
  CHECK(prediction.bottleneck.resource == "memory");
  CHECK_THAT(prediction.infeasible_reason,
             Catch::Contains("stage 0 (operators 0 to 2, operator-0 to operator-2; device 0): memory") &&
                 Catch::Contains(format_bytes(1000) + " too much") &&
                 Catch::Contains("smallest change that fits: recompute operators [1, 2)"));
}

TEST_CASE("a plan that no recompute saves says how much memory is lacking") {
  World world = three_operators(1);
  world.cluster.nodes[0].memory_bytes = 52409;
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 1, {3}, {1}));
  // Recomputing all needs 2400 + 200 + 3000 + 9 + 50000 = 55609.
  CHECK_THAT(prediction.infeasible_reason,
             Catch::Contains("even with the best recompute it needs " + format_bytes(55609 - 52409) + " more"));
}

TEST_CASE("a device without a memory limit holds anything") {
  const World world = three_operators(1);
  const CostTable table = world.table();
  CHECK(NativeCostModel(table).evaluate(make_plan(world.model, 4, {3}, {1})).feasible);
}

TEST_CASE("a stage is bound by the smallest of its devices") {
  World world = three_operators(1);
  Node small = world.cluster.nodes[0];
  small.name = "n1";
  small.memory_bytes = 1000;
  world.cluster.nodes.push_back(small);
  world.cluster.links.push_back({"inter_node", std::nullopt, 1e9, 10});
  const CostTable table = world.table();
  const Prediction prediction = NativeCostModel(table).evaluate(make_plan(world.model, 4, {3}, {2}));
  CHECK_FALSE(prediction.feasible);
}

}  // namespace
}  // namespace trimtab::tuner
