// What stands for costs that nobody measured: no faster than what was measured, perfectly shared, and as unsure as that
// is.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "native/costs/curve.hpp"
#include "native/costs/tables.hpp"
#include "native/costs/tensor_estimate.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMs = 1000000;

Curve curve_of(const std::map<std::int64_t, std::int64_t>& points) {
  std::map<std::int64_t, Statistics> statistics;
  for (const auto& [x, value] : points) {
    statistics[x].add(value);
    statistics[x].add(value);
  }
  return Curve(statistics, 1);
}

TEST_CASE("fewer samples than were measured keep what does not depend on them, more have no better rate") {
  const Curve line = curve_of({{2, 700}, {4, 1200}});  // 200 and 250 for each sample
  CHECK(line.of_samples(1).mean == Approx(450));
  CHECK(line.of_samples(8).mean == Approx(2400));
  CHECK(line.of_samples(1).quality == Quality::kEstimated);
  const Curve point = curve_of({{4, 1000}});
  CHECK(point.of_samples(1).mean == Approx(250));
  CHECK(point.of_samples(1).error == Approx(2 * 0.2 * 250));  // two doublings away
  CHECK(point.of_samples(16).mean == Approx(4000));
  // More than in proportion: no less than that below, no more above.
  const Curve steep = curve_of({{2, 100}, {4, 1000}});
  CHECK(steep.of_samples(1).mean == Approx(50));
}

TEST_CASE("other sizes of messages follow the line of the two nearest, in doubt as far as one in proportion") {
  const Curve line = curve_of({{1000, 1100}, {2000, 1200}, {4000, 1400}});
  CHECK(line.of_bytes(10).mean == Approx(1001));
  CHECK(line.of_bytes(8000).mean == Approx(1800));
  CHECK(line.of_bytes(8000).error == Approx((2800 - 1800) / 2.0));
  CHECK(curve_of({{1000, 1100}}).of_bytes(10).error == Approx((1100 - 11) / 2.0));
}

TEST_CASE("ranks share what is divided, and each does the rest whole") {
  const Value one{100, 0, Quality::kMeasured};
  CHECK(shared_computing(one, 1, 1).quality == Quality::kMeasured);
  const Value eight = shared_computing(one, 1, 8);
  CHECK(eight.mean == Approx(5 + 95 / 8.0));
  CHECK(eight.quality == Quality::kEstimated);
  // Whether nothing stays whole or twice as much is within one standard error.
  CHECK(eight.mean - eight.error == Approx(100 / 8.0));
  // Two ranks were measured: four of them take more than half of that.
  CHECK(shared_computing({60, 0, Quality::kMeasured}, 2, 4).mean == Approx(60 * (0.05 + 0.95 / 4) / (0.05 + 0.95 / 2)));
  const Value reduce{4, 0.5, Quality::kMeasured};
  CHECK(with_all_reduces(eight, 2, reduce).mean == Approx(eight.mean + 8));
  CHECK(with_all_reduces(eight, 2, reduce).error == Approx(eight.error + 1));
  CHECK(with_all_reduces(eight, std::nullopt, reduce).mean == Approx(eight.mean + 4));
  CHECK(with_all_reduces(eight, std::nullopt, reduce).error == Approx(eight.error + 0.5 + 2));
  CHECK(with_all_reduces(eight, 1, {}).quality == Quality::kMissing);
}

// Llama-3-8B at a sequence of 8192: what Megatron-LM's flags make of it.
Model llama() {
  Model model;
  model.name = "llama3-8b";
  model.global_batch = 128;
  model.dtype = "bfloat16";
  model.gradient_bytes_per_parameter_byte = 2;
  model.optimizer_bytes_per_parameter_byte = 6;
  const auto add = [&](const std::string& kind, Bytes parameters, Bytes activations, std::int64_t flops) {
    Operator op;
    op.name = kind + std::to_string(model.operators.size());
    op.kind = op.cost_key = kind;
    op.cut_before = kind != "mlp";
    op.parameter_bytes = parameters;
    op.activation_bytes = activations;
    op.output_bytes = kind == "head" ? 4 : 67108864;
    op.forward_flops = flops;
    op.tensor_all_reduces = kind == "attention" || kind == "mlp" ? 1 : 0;
    op.shape = {{"sequence", 8192}};
    model.operators.push_back(op);
  };
  add("embedding", 1050673152, 100663296, 0);
  for (int layer = 0; layer < 32; ++layer) {
    add("attention", 83894272, 402653184, 1786706395136);
    add("mlp", 352329728, 939524096, 2886218022912);
  }
  add("head", 1050681344, 4336910336, 8607114461184);
  return model;
}

// 64 H100 in nodes of 8; operators of one sample on one rank, and one all-reduce between nodes.
test::World llama_on_64() {
  test::World world;
  world.model = llama();
  for (int n = 0; n < 8; ++n) world.cluster.nodes.push_back({"n" + std::to_string(n), "", 8, 80000000000, 0});
  for (const auto& [level, bandwidth, latency] :
       {std::tuple("intra_node", 450e9, 5.0), std::tuple("inter_node", 50e9, 10.0)}) {
    Link link;
    link.level = level;
    link.bandwidth_bytes_per_s = bandwidth;
    link.latency_us = latency;
    world.cluster.links.push_back(link);
  }
  const auto measure = [&](const std::string& key, std::int64_t forward, std::int64_t backward) {
    for (const auto& [kind, ns] :
         {std::pair(CostKind::kOperatorForward, forward), std::pair(CostKind::kOperatorBackward, backward)}) {
      CostKey of = test::operator_key(kind, key, 1);
      of.dtype = "bfloat16";
      world.costs.push_back(test::exact_cost(of, ns));
    }
  };
  measure("embedding", 20000, 40000);
  measure("attention", 3970458, 7940917);
  measure("mlp", 6413817, 12827635);
  measure("head", 19126921, 38253842);
  CostKey reduce = test::link_key(CostKind::kCollective, 1048576, 8);
  reduce.placement = "inter_node";
  world.costs.push_back(test::exact_cost(reduce, 176000));
  return world;
}

// Of what was measured, what each of 64 devices has to compute in a step.
constexpr double kSharedLlamaMs = 128.0 / 64 * (32 * (3.970458 + 7.940917 + 6.413817 + 12.827635) + 57.380763);

Plan llama_plan(const test::World& world, std::int32_t microbatch, std::int32_t dp, std::int32_t tp) {
  Plan plan = test::make_plan(world.model, microbatch, {66}, {dp * tp});
  plan.stages[0].segments[0].dp = dp;
  plan.stages[0].segments[0].tp = tp;
  return plan;
}

TEST_CASE("row 13: no plan is faster than the measured computing, perfectly shared, and all-reduces count whole") {
  REQUIRE(kSharedLlamaMs == Approx(2108.5).epsilon(1e-4));
  const test::World world = llama_on_64();
  const NativeCostModel model(world.table(true));
  Plan plan = llama_plan(world, 16, 8, 8);
  const Prediction plain = model.evaluate(plan);
  REQUIRE(plain.priced());
  // Of a layer two all-reduces forward and two backward, as the link says them, beside what ranks share.
  const double reduce = plain.stages[0].forward_ms;
  const double all = model.table().tables().links.all_reduce(2 * 67108864, 8, Placement::kIntraNode).mean;
  const double computing = 2 * (32 * (3.970458 + 6.413817) + 0.02 + 19.126921) * (0.05 + 0.95 / 8);
  CHECK(reduce == Approx(computing + (64 + 1) * all));
  CHECK(plain.iteration_ms > kSharedLlamaMs);
  plan.schedule.sub_batches = 2;
  const Prediction halved = model.evaluate(plan);
  CHECK(halved.iteration_ms > kSharedLlamaMs);
  CHECK(halved.iteration_ms < plain.iteration_ms);
  Knobs knobs;
  knobs.tensor_parallel = knobs.sharded = knobs.sub_batches = true;
  SearchOptions options;
  options.max_evaluations = 1500;
  const auto outcome = search(model, knobs, options);
  REQUIRE(outcome.ok());
  REQUIRE_FALSE(outcome->result.plans.empty());
  for (const RankedPlan& ranked : outcome->result.plans) CHECK(ranked.prediction.iteration_ms >= kSharedLlamaMs);
}

TEST_CASE("row 14: a plan that nothing prices has no time, does not count as feasible, and says what is missing") {
  const test::World world = llama_on_64();
  const NativeCostModel model(world.table(true));
  const Prediction prediction = model.evaluate(llama_plan(world, 1, 1, 64));
  CHECK_FALSE(prediction.priced());
  CHECK(std::isinf(prediction.iteration_ms));
  CHECK(std::isinf(prediction.interval_low_ms));
  CHECK(std::isinf(prediction.stages[0].forward_ms));
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.infeasible_reason == "not priced");
  REQUIRE_FALSE(prediction.missing_costs.empty());
  CHECK_THAT(prediction.missing_costs.back(), Catch::Contains("tp=64 over two nodes"));
  CHECK(to_json(prediction).find("\"iteration_ms\":null") != std::string::npos);
  // Measured on one rank alone, and without estimates: neither.
  const NativeCostModel strict(world.table());
  const Prediction eight = strict.evaluate(llama_plan(world, 8, 8, 8));
  CHECK_FALSE(eight.priced());
  CHECK_FALSE(eight.missing_costs.empty());
}

TEST_CASE("a plan whose memory alone is not known has a time, and is not called feasible") {
  test::World world = test::make_world({{}}, 1, 1, {1});
  std::erase_if(world.costs, [](const Cost& cost) { return cost.key.kind == CostKind::kOperatorStoredBytes; });
  const Prediction prediction = NativeCostModel(world.table()).evaluate(test::make_plan(world.model, 1, {1}, {1}));
  CHECK(prediction.priced());
  CHECK(prediction.iteration_ms == Approx(1 + 2));
  CHECK_FALSE(prediction.feasible);
  CHECK_THAT(prediction.infeasible_reason, Catch::Contains("memory that is not known: operator_stored_bytes"));
}

TEST_CASE("an update that nobody timed takes what moving its bytes takes") {
  const Model model = llama();
  const Operator& mlp = model.operators[2];
  const UpdatePace measured{1e-9, 1e-12};
  CHECK(estimated_update(model, mlp, measured, 0).mean == Approx(352329728e-9));
  // At 450 TFLOP/s: parameters and states (2 + 2 + 2 * 6 of each byte), twice, at 3.75 TB/s.
  const Value by_flops = estimated_update(model, mlp, {0, 1 / 450e9}, 0);
  CHECK(by_flops.mean == Approx(2 * 16 * 352329728.0 / 3.75e12 * 1000));
  CHECK(by_flops.error == Approx(0.6 * by_flops.mean));
  CHECK(estimated_update(model, mlp, {}, 3).error == Approx(3));
  CHECK(estimated_update(model, mlp, {}, 0).quality == Quality::kMissing);
}

// A world whose truth is known: what stays whole on every rank, operators of one layer, a link; measured on one rank.
struct TrueWorld {
  test::World world;
  double undivided = 0;
  double reduce_ms = 0;
};

TrueWorld draw(Random& random) {
  TrueWorld made;
  std::vector<test::OperatorTruth> operators;
  for (int i = 0; i < 4; ++i) {
    test::OperatorTruth of;
    of.cost_key = i % 2 == 0 ? "attention" : "mlp";
    of.output_bytes = 1000;
    of.forward_ns = i < 2 ? random.between(1, 20) * kMs : operators[i - 2].forward_ns;
    of.backward_ns = 2 * of.forward_ns;
    operators.push_back(of);
  }
  made.world = test::make_world(operators, 8, 8, {1, 2, 4, 8});
  for (Operator& op : made.world.model.operators) op.kind = op.cost_key;
  test::add_links(made.world, random.between(0, 200) * 1000, 0);
  made.reduce_ms = made.world.table().tables().links.all_reduce(1000, 8, Placement::kIntraNode).mean;
  made.undivided = std::max(0.0, 0.05 + 0.05 * random.normal());
  return made;
}

TEST_CASE("plans that were never measured are no faster than shared, and their truth is within the interval") {
  constexpr int kWorlds = 200;
  int within = 0;
  int priced = 0;
  const std::uint64_t seed = 29;
  CAPTURE(seed);
  Random random(seed);
  Calibration certain;
  certain.computation.log_sigma = certain.communication.log_sigma = certain.residual_sigma = 0;
  for (Factor& factor : certain.classes) factor.log_sigma = 0;
  for (int w = 0; w < test::tried(kWorlds); ++w) {
    CAPTURE(w);
    const TrueWorld made = draw(random);
    const NativeCostModel model(made.world.table(true), certain);
    double alone = 0;  // of one sample
    for (const Operator& op : made.world.model.operators) {
      for (const Cost& cost : made.world.costs) {
        const bool pass = cost.key.kind <= CostKind::kOperatorBackward;
        if (pass && cost.key.subject == op.cost_key && cost.key.samples == 1) alone += cost.statistics.mean() / kMs;
      }
    }
    for (const std::int32_t tp : {2, 4, 8}) {
      Plan plan = test::make_plan(made.world.model, 8, {4}, {8});
      plan.stages[0].segments[0].dp = 8 / tp;
      plan.stages[0].segments[0].tp = tp;
      const Prediction prediction = model.evaluate(plan);
      REQUIRE(prediction.priced());
      REQUIRE(prediction.iteration_ms >= alone - 1e-9);  // 8 samples on 8 devices
      const double truth = tp * alone * (made.undivided + (1 - made.undivided) / tp) + 8 * made.reduce_ms;
      ++priced;
      within += prediction.interval_low_ms <= truth && truth <= prediction.interval_high_ms ? 1 : 0;
      // Nor in two sub-batches, however long all-reduces take.
      if (plan.microbatch / plan.stages[0].segments[0].dp % 2 != 0) continue;
      plan.schedule.sub_batches = 2;
      REQUIRE(model.evaluate(plan).iteration_ms >= alone - 1e-9);
    }
  }
  CHECK(within >= 0.9 * priced);
  CHECK(within < priced);  // and not because it says nothing
}

TEST_CASE("a slowdown that nobody measured changes no time, and widens the interval by what is hidden") {
  test::OperatorTruth of;
  of.parameter_bytes = of.output_bytes = 1000;
  test::World world = test::make_world({of, of}, 2, 4, {2, 4});
  test::add_links(world, kMs, 0);
  for (Operator& op : world.model.operators) op.tensor_all_reduces = 1;
  Plan replicas = test::make_plan(world.model, 4, {2}, {2});
  Plan halved = replicas;
  halved.stages[0].segments[0].dp = 1;
  halved.stages[0].segments[0].tp = 2;
  halved.schedule.sub_batches = 2;
  const auto doubt = [](const Prediction& of_plan) {
    REQUIRE(of_plan.priced());
    return of_plan.interval_high_ms - of_plan.iteration_ms;
  };
  const NativeCostModel unknown(world.table(true));
  for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
    world.costs.push_back(test::exact_cost(test::link_key(kind, 1000, 2), 1000000));
  }
  const NativeCostModel known(world.table(true));
  for (const Plan& plan : {replicas, halved}) {
    CHECK(known.evaluate(plan).iteration_ms == Approx(unknown.evaluate(plan).iteration_ms));
    CHECK(doubt(known.evaluate(plan)) < doubt(unknown.evaluate(plan)));
  }
}

TEST_CASE("sub-batches take no more out of an operator than it contains") {
  // On two ranks 16 ms in either pass, where one takes 30: 1 of them is an all-reduce at most, whatever the tables say.
  test::World world = test::make_world({{}}, 2, 4, {});
  Operator& op = world.model.operators[0];
  op.tensor_all_reduces = 1;
  op.output_bytes = 1000;
  test::add_links(world, 8 * kMs, 0);
  const auto measure = [&](std::int32_t samples, std::int32_t tp, std::int64_t ms) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward}) {
      CostKey key = test::operator_key(kind, op.cost_key, samples);
      key.tp = tp;
      world.costs.push_back(test::exact_cost(key, ms * kMs));
    }
    for (const CostKind kind : {CostKind::kOperatorStoredBytes, CostKind::kOperatorWorkingBytes}) {
      CostKey key = test::operator_key(kind, op.cost_key, samples);
      key.tp = tp;
      world.costs.push_back(test::exact_cost(key, 1));
    }
  };
  for (const std::int32_t samples : {2, 4}) {
    measure(samples, 1, 15 * samples);
    measure(samples, 2, 8 * samples);
  }
  Plan plan = test::make_plan(world.model, 4, {1}, {2});
  plan.stages[0].segments[0].dp = 1;
  plan.stages[0].segments[0].tp = 2;
  plan.schedule.sub_batches = 2;
  const Prediction prediction = NativeCostModel(world.table()).evaluate(plan);
  REQUIRE(prediction.priced());
  CHECK(prediction.stages[0].forward_ms == Approx(15 + 15));
  CHECK(prediction.iteration_ms == Approx(2 * (15 + 15 + 1)));
}

}  // namespace
}  // namespace trimtab::tuner
