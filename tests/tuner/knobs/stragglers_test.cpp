// What replicas wait for the slowest of them, against a Monte Carlo of the step.

#include "native/stage/stragglers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "../world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMs = 1000000;

double distribution(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

// The integral of 1 - F^n above 0 less that of F^n below it.
double integrated_maximum(int n) {
  double sum = 0;
  const double step = 1e-3;
  for (double x = step / 2; x < 12; x += step) {
    sum += step * (1 - std::pow(distribution(x), n) - std::pow(distribution(-x), n));
  }
  return sum;
}

TEST_CASE("the expected maximum of normal values is its integral") {
  CHECK(expected_maximum(1) == 0);
  for (const int n : {2, 3, 5, 8}) CHECK(expected_maximum(n) == Approx(integrated_maximum(n)).epsilon(1e-5));
  for (const int n : {9, 11, 14, 20, 48, 100, 384, 3000, 65536}) {
    CHECK(expected_maximum(n) == Approx(integrated_maximum(n)).epsilon(2e-3));
  }
  CHECK(expected_maximum(1 << 20) > expected_maximum(1 << 16));
}

test::OperatorTruth truth(const std::string& key, std::int64_t ms) {
  test::OperatorTruth of;
  of.cost_key = key;
  of.forward_ns = ms * kMs;
  of.backward_ns = 2 * ms * kMs;
  of.parameter_bytes = 1000;
  return of;
}

// Operators with a standard deviation of `share` of their means; communication takes no time.
test::World world_of(std::int32_t devices, const std::vector<std::int64_t>& forward_ms, double share) {
  std::vector<test::OperatorTruth> operators;
  for (std::size_t i = 0; i < forward_ms.size(); ++i) {
    operators.push_back(truth("o" + std::to_string(i), forward_ms[i]));
  }
  test::World world = test::make_world(operators, devices, 96, {1, 2, 4, 8, 16});
  test::add_links(world, 0, 0);
  for (const char* const primitive : {"all_gather", "reduce_scatter"}) {
    for (const std::int64_t bytes : {1, 1000000}) {
      CostKey key = test::link_key(CostKind::kCollective, bytes, devices);
      key.subject = primitive;
      world.costs.push_back(test::exact_cost(key, 0));
    }
  }
  for (Cost& cost : world.costs) {
    if (cost.key.kind > CostKind::kOperatorBackward) continue;
    const double mean = cost.statistics.mean();
    // Two values of this distance have the asked-for deviation.
    const auto away = static_cast<std::int64_t>(mean * share / std::sqrt(2.0));
    cost.statistics = {};
    cost.statistics.add(static_cast<std::int64_t>(mean) - away);
    cost.statistics.add(static_cast<std::int64_t>(mean) + away);
  }
  return world;
}

double step_ms(const test::World& world, const Plan& plan, double device_share = 0) {
  CostTableOptions options;
  options.device_share = device_share;
  const auto table = CostTable::build(world.model, world.cluster, world.costs, options);
  REQUIRE(table.ok());
  const Prediction prediction = NativeCostModel(table.value()).evaluate(plan);
  REQUIRE(prediction.missing_costs.empty());
  return prediction.iteration_ms;
}

// One replica's stages through a step of 1F1B, each operator's pass drawn anew; when its last stage ends.
class DrawnPipeline {
 public:
  DrawnPipeline(const std::vector<std::vector<double>>& stages, int microbatches, double share, double device_share)
      : stages_(stages), microbatches_(microbatches), share_(share), device_share_(device_share) {}

  double end(Random& random) {
    const auto count = static_cast<int>(stages_.size());
    std::vector<double> slow;
    for (int s = 0; s < count; ++s) slow.push_back(std::sqrt(device_share_) * random.normal());
    const auto length = [&](int s, double factor) {
      double sum = 0;
      for (const double ms : stages_[static_cast<std::size_t>(s)]) {
        const double noise = slow[static_cast<std::size_t>(s)] + std::sqrt(1 - device_share_) * random.normal();
        sum += factor * ms * (1 + share_ * noise);
      }
      return sum;
    };
    std::vector<std::vector<double>> forward(stages_.size(), std::vector<double>(std::size_t(microbatches_), -1));
    auto backward = forward;
    std::vector<double> free(stages_.size(), 0);
    std::vector<int> next(stages_.size(), 0);
    for (int done = 0; done < 2 * count * microbatches_;) {
      for (int s = 0; s < count; ++s) {
        const auto at = static_cast<std::size_t>(s);
        if (next[at] == 2 * microbatches_) continue;
        const Action action = action_at(next[at], std::min(microbatches_, count - s - 1));
        double input = 0;
        if (action.forward && s > 0) input = forward[at - 1][action.microbatch];
        if (!action.forward && s + 1 < count) input = backward[at + 1][action.microbatch];
        if (input < 0) continue;
        free[at] = std::max(free[at], input) + length(s, action.forward ? 1 : 2);
        (action.forward ? forward : backward)[at][action.microbatch] = free[at];
        ++next[at];
        ++done;
      }
    }
    return *std::max_element(free.begin(), free.end());
  }

 private:
  struct Action {
    bool forward;
    std::size_t microbatch;
  };
  // A stage's k-th: `ahead` forwards, then one of each in turn, then backwards.
  [[nodiscard]] Action action_at(int k, int ahead) const {
    const int steady = k - ahead;
    if (steady < 0) return {true, std::size_t(k)};
    if (steady >= 2 * (microbatches_ - ahead)) return {false, std::size_t(k - microbatches_)};
    return {steady % 2 == 0, std::size_t(steady / 2 + (steady % 2 == 0 ? ahead : 0))};
  }

  const std::vector<std::vector<double>>& stages_;
  int microbatches_;
  double share_;
  double device_share_;
};

// Of the slowest replica's step less the replicas' mean.
struct DrawnWait {
  double mean = 0;
  double standard_error = 0;
};

DrawnWait draw(Random& random, const std::vector<std::vector<double>>& stages, int microbatches, int replicas,
               double share, double device_share) {
  const int steps = 3000;
  double sum = 0;
  double squares = 0;
  DrawnPipeline pipeline(stages, microbatches, share, device_share);
  for (int step = 0; step < steps; ++step) {
    double most = 0;
    double mean = 0;
    for (int r = 0; r < replicas; ++r) {
      const double end = pipeline.end(random);
      mean += end / replicas;
      most = std::max(most, end);
    }
    sum += most - mean;
    squares += (most - mean) * (most - mean);
  }
  const double mean = sum / steps;
  return {mean, std::sqrt((squares / steps - mean * mean) / steps)};
}

// What the mean of so many draws differs by but once in 15,000 times.
double sampling_error(const DrawnWait& drawn) {
  return 4 * drawn.standard_error;
}

TEST_CASE("one replica waits for nobody, nor do replicas that take the same") {
  const double share = GENERATE(0.0, 0.2);
  const test::World exact = world_of(4, {10, 20}, 0);
  const test::World world = world_of(4, {10, 20}, share);
  for (const std::int32_t dp : {1, 4}) {
    Plan plan = test::make_plan(world.model, 4, {2}, {dp});
    const double less = step_ms(exact, plan);
    if (dp == 1 || share == 0) CHECK(step_ms(world, plan) == less);
    if (dp > 1 && share > 0) CHECK(step_ms(world, plan) > less);
  }
}

TEST_CASE("replicas of one stage wait as long as a Monte Carlo of the step says") {
  const double device_share = GENERATE(0.0, 0.3, 1.0);
  const int dp = GENERATE(2, 4, 8);
  Random random(7);
  INFO("seed 7, dp " << dp << ", device share " << device_share);
  const std::int32_t microbatch = 8;
  const test::World exact = world_of(dp, {10, 20, 10}, 0);
  const test::World world = world_of(dp, {10, 20, 10}, 0.1);
  const Plan plan = test::make_plan(world.model, microbatch, {3}, {dp});
  const double samples = static_cast<double>(microbatch) / dp;
  const DrawnWait drawn =
      draw(random, {{10 * samples, 20 * samples, 10 * samples}}, 96 / microbatch, dp, 0.1, device_share);
  const double waited = step_ms(world, plan, device_share) - step_ms(exact, plan);
  // Passes are drawn normal and one after the other: nothing but the sampling error is between the two.
  CHECK(waited == Approx(drawn.mean).margin(sampling_error(drawn)).epsilon(0));
}

TEST_CASE("replicas of a pipeline with a busiest stage wait as long as a Monte Carlo says") {
  const double device_share = GENERATE(0.0, 0.3);
  Random random(11);
  INFO("seed 11, device share " << device_share);
  const std::vector<std::int64_t> ms = {10, 20, 14};
  const test::World exact = world_of(12, ms, 0);
  const test::World world = world_of(12, ms, 0.1);
  const Plan plan = test::make_plan(world.model, 8, {1, 2, 3}, {4, 4, 4});
  const DrawnWait drawn = draw(random, {{20}, {40}, {28}}, 12, 4, 0.1, device_share);
  const double waited = step_ms(world, plan, device_share) - step_ms(exact, plan);
  // Of the 36 ms that every ms of the busiest stage's forward brings to a step one is hidden: its second forward runs
  // beside the last stage's passes. The model counts it.
  CHECK(waited == Approx(drawn.mean).margin(sampling_error(drawn) + waited / 36).epsilon(0));
}

TEST_CASE("replicas that synchronize more often wait more often") {
  const test::World exact = world_of(4, {10, 20}, 0);
  const test::World world = world_of(4, {10, 20}, 0.1);
  Plan plan = test::make_plan(world.model, 4, {2}, {4});
  const auto waited = [&] { return step_ms(world, plan) - step_ms(exact, plan); };
  const double operators[] = {1, 2, 2, 4};  // standard deviations of forwards and backwards
  double squares = 0;
  double sum = 0;
  for (const double deviation : operators) {
    squares += deviation * deviation;
    sum += deviation;
  }
  const double slowest = expected_maximum(4);
  const double microbatches = 24;
  CHECK(waited() == Approx(slowest * std::sqrt(microbatches * squares)));
  Segment& segment = plan.stages[0].segments[0];
  segment.sharded = ShardedLevel::kOptimizer;
  CHECK(waited() == Approx(slowest * std::sqrt(microbatches * squares)));
  segment.sharded = ShardedLevel::kGradients;
  CHECK(waited() == Approx(microbatches * slowest * std::sqrt(squares)));
  segment.sharded = ShardedLevel::kParameters;
  CHECK(waited() == Approx(microbatches * slowest * std::sqrt(squares)));
  plan.target_knobs["parameter_prefetch"] = "false";
  CHECK(waited() == Approx(microbatches * slowest * sum));
  plan.target_knobs["gradient_accumulation"] = "\"whole\"";
  plan.target_knobs.erase("parameter_prefetch");
  segment.sharded = ShardedLevel::kGradients;
  CHECK(waited() == Approx(slowest * std::sqrt(microbatches * squares)));
}

}  // namespace
}  // namespace trimtab::tuner
