// The strategies in spaces with tensor parallelism, sharding, mixed splits and second dimensions: exhaustive against
// pricing every plan one by one, aceso against exhaustive.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "plan/plan_space.hpp"
#include "split_world.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"
#include "usual_worlds.hpp"

namespace trimtab::tuner {
namespace {

SearchOutcome run(const test::World& world, const char* strategy, const char* space,
                  const std::vector<std::string>& without = {}) {
  const NativeCostModel model(world.table());
  SearchOptions options;
  options.remedies = false;
  options.strategy = strategy;
  options.space = space;
  options.without = without;
  return search(model, Knobs{}, options).value();
}

double best_ms(const SearchOutcome& outcome) {
  return outcome.result.plans.empty() ? 0 : outcome.result.plans.front().prediction.iteration_ms;
}

// Every plan of a space by the public interface alone: each operator with a segment of its own.
class EveryPlan {
 public:
  EveryPlan(const test::World& world, const char* space)
      : world_(world),
        model_(world.table()),
        space_(named_space(space, world.model, world.cluster, Knobs{}, 1).value()) {
    plan_.model = world.model.name;
    plan_.global_batch = world.model.global_batch;
  }

  double best() {
    for (const std::int32_t microbatch : space_.microbatches) {
      plan_.microbatch = microbatch;
      place(0, 0);
    }
    return best_;
  }

 private:
  // The next stage begins at `op` and has the devices from `device` on.
  void place(std::int32_t op, std::int32_t device) {
    if (op == space_.operators) {
      if (device == space_.devices) price();
      return;
    }
    for (std::int32_t end = op + 1; end <= space_.operators; ++end) {
      for (std::int32_t count = 1; device + count <= space_.devices; ++count) {
        if (!space_.allows_devices(device, count)) continue;
        Stage stage;
        for (std::int32_t i = 0; i < count; ++i) stage.devices.push_back(device + i);
        plan_.stages.push_back(stage);
        split(op, end, end, device + count);
        plan_.stages.pop_back();
      }
    }
  }

  void split(std::int32_t op, std::int32_t end, std::int32_t next, std::int32_t device) {
    if (op == end) {
      place(next, device);
      return;
    }
    const auto count = static_cast<std::int32_t>(plan_.stages.back().devices.size());
    for (const Split& split_of : space_.splits(world_.model, plan_.microbatch, count)) {
      const bool first = plan_.stages.back().segments.empty();
      if (!first && !space_.mixed_splits && split_of.tp != plan_.stages.back().segments.back().tp) continue;
      if (!first && !space_.mixed_splits && split_of.sharded != plan_.stages.back().segments.back().sharded) continue;
      const bool has_second =
          space_.alternate_dimensions && split_of.tp > 1 && world_.model.operators[op].shardings.size() > 1;
      for (int choice = 0; choice < (has_second ? 4 : 2); ++choice) {
        Segment segment;
        segment.operators = {op, op + 1};
        segment.dp = split_of.dp;
        segment.tp = split_of.tp;
        segment.sharded = split_of.sharded;
        if ((choice & 1) != 0) segment.recompute = {{op, op + 1}};
        if ((choice & 2) != 0) segment.alternate_dimension = {{op, op + 1}};
        // Deeper calls add stages: this one must be named again, not kept.
        const std::size_t s = plan_.stages.size() - 1;
        plan_.stages[s].segments.push_back(segment);
        split(op + 1, end, next, device);
        plan_.stages[s].segments.pop_back();
      }
    }
  }

  void price() {
    price_sub_batches();
    const auto most = static_cast<std::int32_t>(plan_.stages.size()) - 1;
    for (plan_.schedule.sliced_microbatches = 0; plan_.schedule.sliced_microbatches <= most;
         ++plan_.schedule.sliced_microbatches) {
      const bool valid = plan_.schedule.sliced_microbatches == 0 ||
                         (space_.sliced_microbatches && validate(plan_, world_.model, world_.cluster).empty());
      if (valid) price_schedule();
    }
    plan_.schedule.sliced_microbatches = 0;
  }

  void price_sub_batches() {
    for (const SubBatches& of : space_.sub_batches) {
      if (of.count < 2) continue;
      plan_.schedule.sub_batches = of.count;
      plan_.schedule.cross_pass = of.cross_pass;
      plan_.schedule.recompute_after_communication = of.recompute_after_communication;
      if (validate(plan_, world_.model, world_.cluster).empty()) price_schedule();
    }
    plan_.schedule = {};
  }

  void price_schedule() {
    const Prediction prediction = model_.evaluate(plan_);
    const bool counts = prediction.feasible && prediction.missing_costs.empty();
    if (counts && (best_ == 0 || prediction.iteration_ms < best_)) best_ = prediction.iteration_ms;
  }

  const test::World& world_;
  NativeCostModel model_;
  PlanSpace space_;
  Plan plan_;
  double best_ = 0;
};

void check_against_every_plan(const char* space, std::uint64_t seed, int cases, test::RandomWorldOptions options) {
  INFO("space " << space << ", seed " << seed);
  Random random(seed);
  int fitted = 0;
  for (int i = 0; i < cases; ++i) {
    const test::World world = test::random_split_world(random, options);
    const SearchOutcome outcome = run(world, "exhaustive", space);
    INFO("case " << i);
    const double expected = EveryPlan(world, space).best();
    REQUIRE(best_ms(outcome) == Approx(expected).epsilon(1e-12));
    if (expected > 0) REQUIRE(outcome.result.proven);
    if (expected > 0) ++fitted;
  }
  CHECK(fitted >= cases / 2);
}

TEST_CASE("with mixed splits, sharding and second dimensions exhaustive finds what pricing every plan finds") {
  check_against_every_plan("all", 21, 40, {3, 2, 2});
  check_against_every_plan("all", 22, 6, {2, 4, 2});
}

struct Gaps {
  std::vector<double> all;  // ascending
  int proven = 0;
  [[nodiscard]] double at(double share) const {
    return all[std::min(all.size() - 1, static_cast<std::size_t>(share * static_cast<double>(all.size())))];
  }
};

Gaps gaps_of(const char* space, std::uint64_t seed, int cases, const test::RandomWorldOptions& options, bool splits,
             const std::vector<std::string>& without = {}) {
  Random random(seed);
  Gaps gaps;
  for (int i = 0; i < test::tried(test::usual(cases)); ++i) {
    const test::World world = splits ? test::random_split_world(random, options) : test::random_world(random, options);
    const SearchOutcome referee = run(world, "exhaustive", space, without);
    const SearchOutcome found = run(world, "aceso", space, without);
    INFO("space " << space << ", seed " << seed << ", case " << i);
    REQUIRE(found.result.plans.empty() == referee.result.plans.empty());
    if (referee.result.plans.empty()) {
      REQUIRE_FALSE(found.infeasible.empty());
      continue;
    }
    if (referee.result.proven) {
      ++gaps.proven;
      REQUIRE(best_ms(found) >= best_ms(referee) * (1 - 1e-9));
    }
    REQUIRE(validate(found.result.plans[0].plan, world.model, world.cluster).empty());
    gaps.all.push_back(std::max(0.0, best_ms(found) / best_ms(referee) - 1));
  }
  std::sort(gaps.all.begin(), gaps.all.end());
  const auto exact = std::count_if(gaps.all.begin(), gaps.all.end(), [](double gap) { return gap < 1e-9; });
  std::printf(
      "aceso's gap to exhaustive, space %s, seed %llu: %zu cases, %d proven; exact in %.2f %%, median %.4f %%, "
      "95 %% %.4f %%, 99 %% %.4f %%, largest %.4f %%\n",
      space, static_cast<unsigned long long>(seed), gaps.all.size(), gaps.proven,
      100.0 * static_cast<double>(exact) / static_cast<double>(gaps.all.size()), 100 * gaps.at(0.5),
      100 * gaps.at(0.95), 100 * gaps.at(0.99), 100 * gaps.all.back());
  return gaps;
}

TEST_CASE("aceso's gap in the space of a job: none in 99 % of small worlds, never above 2 %") {
  const Gaps gaps = gaps_of("job", 501, 2000, {8, 4, 2}, false);
  CHECK(gaps.at(0.99) < 1e-9);
  CHECK(gaps.all.back() <= 0.02);
}

TEST_CASE("aceso's gap with tensor parallelism and derived recompute: none in 95 % of small worlds, never above 3 %") {
  const Gaps gaps = gaps_of("aceso", 502, 1000, {8, 4, 2}, true);
  CHECK(gaps.at(0.95) < 1e-9);
  CHECK(gaps.all.back() <= 0.03);
}

// What is left is of sub-batches, which the paper's primitives do not know: a price chooses them after the fact, and
// with them their memory, so that plans fit that no primitive led to.
TEST_CASE("aceso's gap with everything that the native model prices: none in 95 % of small worlds, never above 16 %") {
  const Gaps gaps = gaps_of("all", 503, 400, {4, 2, 2}, true);
  CHECK(gaps.at(0.95) < 1e-9);
  CHECK(gaps.all.back() <= 0.16);
}

TEST_CASE("aceso's gap with all but sub-batches: none in 99 % of small worlds, never above 3 %") {
  const Gaps gaps = gaps_of("all", 503, 400, {4, 2, 2}, true, {"sub_batches"});
  CHECK(gaps.at(0.99) < 1e-9);
  CHECK(gaps.all.back() <= 0.03);
}

}  // namespace
}  // namespace trimtab::tuner
