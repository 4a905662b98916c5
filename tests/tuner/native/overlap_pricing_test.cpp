// Slowdowns that running jobs showed, in the price of whole plans.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tuner/cost_model.hpp"
#include "tuner/needed_costs.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMs = 1000000;

// Two operators on two replicas: a forward pass of 1 ms, a backward pass of 6, an all-reduce of 4 ms of 1000 bytes.
test::World replicas(const std::string& kind) {
  test::OperatorTruth of;
  of.cost_key = "a";
  of.backward_ns = 6 * kMs;
  of.parameter_bytes = 1000;
  test::World world = test::make_world({of, of}, 2, 2, {1, 2});
  for (Operator& op : world.model.operators) op.kind = kind;
  test::add_links(world, 4 * kMs, 0);
  return world;
}

void show(test::World& world, CostKind kind, const std::string& subject, std::int64_t bytes,
          const std::string& kernel_class, double slowdown, double apart = 0, std::int32_t group = 2) {
  Cost cost;
  cost.key = test::link_key(kind, bytes, group);
  cost.key.subject = subject;
  cost.key.kernel_class = kernel_class;
  if (!kernel_class.empty()) cost.key.algorithm = "ring";
  for (int i = 0; i < 10; ++i) {
    cost.statistics.add(std::llround((slowdown + (i % 2 == 0 ? apart : -apart)) * 1e6));
  }
  world.costs.push_back(cost);
}

Prediction predict(const test::World& world, const Plan& plan) {
  REQUIRE(validate(plan, world.model, world.cluster).empty());
  return NativeCostModel(world.table()).evaluate(plan);
}

// The second operator's all-reduce beside the first one's backward pass, then the first one's own; forward passes.
double step_of(double alpha, double beta) {
  const double beside = 6 * alpha > 4 * beta ? 4 * beta + (6 - 4 * beta / alpha) : 6 * alpha + (4 - 6 * alpha / beta);
  return 2 + 6 + beside + 4;
}

TEST_CASE("slowdowns that training showed by kernel class and bytes change a plan's predicted time") {
  test::World world = replicas("mlp");
  const Plan plan = test::make_plan(world.model, 2, {2}, {2});
  show(world, CostKind::kOverlapComputation, "all_reduce", 1000, "", 1.1);
  show(world, CostKind::kOverlapCommunication, "all_reduce", 1000, "", 1.1);
  CHECK(predict(world, plan).iteration_ms == Approx(step_of(1.1, 1.1)));
  // A product beside 1000 bytes, between what was seen of 500 and of 2000; the norm's slowdown is not its.
  show(world, CostKind::kOverlapComputation, "all_reduce", 500, "gemm", 1.3);
  show(world, CostKind::kOverlapComputation, "all_reduce", 2000, "gemm", 1.5);
  show(world, CostKind::kOverlapComputation, "all_reduce", 1000, "normalization", 1.9);
  show(world, CostKind::kOverlapCommunication, "all_reduce", 1000, "gemm", 1.25);
  CHECK(predict(world, plan).iteration_ms == Approx(step_of(1.4, 1.25)));
  CHECK(predict(world, plan).estimated_costs.empty());
  for (Operator& op : world.model.operators) op.kind = "layernorm";
  // Of its class alpha alone was seen: beta is that beside any class.
  CHECK(predict(world, plan).iteration_ms == Approx(step_of(1.9, 1.25)));
}

TEST_CASE("a slowdown that scatters widens a plan's interval") {
  const auto width = [](double apart) {
    test::World world = replicas("mlp");
    show(world, CostKind::kOverlapComputation, "all_reduce", 1000, "gemm", 1.5, apart);
    show(world, CostKind::kOverlapCommunication, "all_reduce", 1000, "gemm", 1.25, apart);
    const Prediction prediction = predict(world, test::make_plan(world.model, 2, {2}, {2}));
    return std::pair(prediction.interval_high_ms - prediction.interval_low_ms, prediction.iteration_ms);
  };
  const auto [sure, sure_ms] = width(0);
  const auto [unsure, unsure_ms] = width(0.6);
  CHECK(unsure_ms == Approx(sure_ms));
  // Of 6 ms beside 4: 4 beta / alpha^2 for alpha's error, 4 - 4 / alpha for beta's, both 0.2.
  const double added = std::sqrt(unsure * unsure - sure * sure) / (2 * 1.96);
  CHECK(added == Approx(0.2 * (5 / 2.25 + 4 - 4 / 1.5)).epsilon(0.01));
}

TEST_CASE("a GPU's stand-ins price a plan whose collectives were never measured beside computing, as an estimate") {
  test::World world = replicas("mlp");
  const Plan plan = test::make_plan(world.model, 2, {2}, {2});
  const double width = predict(world, plan).interval_high_ms - predict(world, plan).interval_low_ms;
  for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
    Cost cost =
        test::exact_cost(test::link_key(kind, 4 << 20), kind == CostKind::kOverlapComputation ? 1300000 : 2000000);
    cost.key.subject = "channel_link";
    cost.key.channels = 8;
    cost.key.kernel_class = "gemm";
    world.costs.push_back(cost);
  }
  const Prediction prediction = predict(world, plan);
  CHECK(prediction.iteration_ms == Approx(step_of(1.3, 2)));
  REQUIRE(prediction.estimated_costs.size() == 1);
  CHECK_THAT(prediction.estimated_costs[0],
             Catch::Contains("estimated from the GPU's stand-in") && Catch::Contains("channel_link"));
  CHECK(prediction.interval_high_ms - prediction.interval_low_ms > 1.05 * width);
}

// Two tensor-parallel ranks, twice: of its 10 ms forward and 20 backward, either pass contains an all-reduce of 4 ms.
test::World two_of_two() {
  test::OperatorTruth of;
  of.cost_key = "mlp";
  of.output_bytes = 500;
  of.parameter_bytes = 2000;
  test::World world = test::make_world({of, of}, 4, 4, {});
  for (Operator& op : world.model.operators) op.kind = "mlp";
  const auto put = [&](CostKind kind, std::int64_t value) {
    CostKey key = test::operator_key(kind, "mlp", 2);
    key.tp = 2;
    world.costs.push_back(test::exact_cost(key, value));
  };
  put(CostKind::kOperatorForward, 10 * kMs);
  put(CostKind::kOperatorBackward, 20 * kMs);
  put(CostKind::kOperatorStoredBytes, 10);
  put(CostKind::kOperatorWorkingBytes, 10);
  test::add_links(world, 4 * kMs, 0);
  return world;
}

TEST_CASE("two communications measured at once replace the wait of replicas' gradients for tensor-parallel ranks") {
  test::World world = two_of_two();
  Plan plan = test::make_plan(world.model, 4, {2}, {4});
  plan.stages[0].segments[0].dp = 2;
  plan.stages[0].segments[0].tp = 2;
  // Beside the first operator's backward pass the last one's gradients find room in what it computes.
  const double forward = 20;
  CHECK(predict(world, plan).iteration_ms == Approx(forward + 20 + 20 + 4));
  // So that it is seen: gradients of 30 ms, of which 16 find room beside the 16 ms that the first operator computes.
  for (Cost& cost : world.costs) {
    if (cost.key.kind == CostKind::kCollective && cost.key.bytes > 1) cost.key.bytes = 1000;
  }
  world.costs.push_back(test::exact_cost(test::link_key(CostKind::kCollective, 1001, 2), 30 * kMs));
  for (Operator& op : world.model.operators) op.parameter_bytes = 2002;
  CHECK(predict(world, plan).iteration_ms == Approx(forward + 20 + 20 + (30 - 16) + 30));
  // Together each takes as long as one and a half: a quarter less of the link is lost.
  show(world, CostKind::kOverlapCommunication, "all_reduce+all_reduce", 1000, "communication", 1.5);
  // 16 of 30 beside computing, then 6 ms in which 4 of the gradients are sent.
  CHECK(predict(world, plan).iteration_ms == Approx(forward + 20 + 16 + 4 * 1.5 + (30 - 16 - 4) + 30));
}

TEST_CASE("gathers and scatters measured at once have channels of their own") {
  test::OperatorTruth of;
  of.cost_key = "mlp";
  of.parameter_bytes = 2000;
  of.forward_ns = 10 * kMs;
  of.backward_ns = 20 * kMs;
  test::World world = test::make_world({of, of, of}, 2, 2, {1});
  for (Operator& op : world.model.operators) op.kind = "mlp";
  test::add_links(world, 0, 0);
  for (const char* const primitive : {"reduce_scatter", "all_gather"}) {
    for (const std::int64_t bytes : {1, 4000}) {
      CostKey key = test::link_key(CostKind::kCollective, bytes, 2);
      key.subject = primitive;
      world.costs.push_back(test::exact_cost(key, 15 * kMs));
    }
  }
  Plan plan = test::make_plan(world.model, 2, {3}, {2});
  plan.stages[0].segments[0].sharded = ShardedLevel::kParameters;
  // Forward: the first gather, then each beside the operator before it, 5 ms longer. Backward: the first gather; the
  // second beside the last operator (20), the third after the first scatter, 30 beside 20, at last two scatters but for
  // what the first operator covers: 15 of it, and 5 of the last one's wait.
  const double serial = predict(world, plan).iteration_ms;
  CHECK(serial == Approx((15 + 15 + 15 + 10) + (15 + 20 + 30 + 20 + 15)));
  show(world, CostKind::kOverlapCommunication, "all_gather+reduce_scatter", 1000, "communication", 1.0);
  CHECK(predict(world, plan).iteration_ms == Approx(serial));  // of one alone nothing is concluded
  show(world, CostKind::kOverlapCommunication, "reduce_scatter+all_gather", 2000, "communication", 1.0);
  // Now nothing waits for a scatter but the end.
  CHECK(predict(world, plan).iteration_ms == Approx((15 + 15 + 15 + 10) + (15 + 20 + 20 + 20 + 15)));
}

TEST_CASE("a slowdown that training has shown well needs no benchmark") {
  const test::World world = replicas("mlp");
  const auto slowdowns = [](const std::vector<CostKey>& keys) {
    return std::count_if(keys.begin(), keys.end(), [](const CostKey& key) {
      return key.kind == CostKind::kOverlapComputation || key.kind == CostKind::kOverlapCommunication;
    });
  };
  const Knobs knobs;
  CHECK(slowdowns(needed_costs(world.model, world.cluster, knobs, world.costs)) == 2);
  test::World seen = world;
  show(seen, CostKind::kOverlapComputation, "all_reduce", 1024, "gemm", 1.3);
  CHECK(slowdowns(needed_costs(world.model, world.cluster, knobs, seen.costs)) == 1);
  show(seen, CostKind::kOverlapCommunication, "all_reduce", 1024, "mixed", 1.3);
  CHECK(slowdowns(needed_costs(world.model, world.cluster, knobs, seen.costs)) == 0);
}

}  // namespace
}  // namespace trimtab::tuner
