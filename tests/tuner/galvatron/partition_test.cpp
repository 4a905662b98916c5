// The ends of Algorithm 2's walk against every partition, and what the paper proves of its steps.

#include "strategies/galvatron/partition.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <set>

using namespace trimtab::tuner::galvatron;  // NOLINT: a test's own file

namespace {

PartitionCosts random_costs(std::mt19937_64& random, std::int32_t layers, std::int32_t stages, bool in_flight) {
  std::uniform_real_distribution<double> amount(1, 10);
  PartitionCosts costs;
  costs.layers = layers;
  costs.stages = stages;
  std::vector<double> mib;
  for (std::int32_t i = 0; i < layers; ++i) {
    costs.ms.push_back(amount(random));
    mib.push_back(amount(random));
  }
  for (std::int32_t s = 0; s < stages; ++s) {
    costs.reserved.push_back(in_flight ? amount(random) : 0);
    for (const double one : mib) costs.mib.push_back(in_flight ? one * (1 + stages - s) : one);
  }
  return costs;
}

void each_partition(std::int32_t layers, std::int32_t stages, const std::function<void(const Partition&)>& visit) {
  Partition partition;
  const std::function<void(std::int32_t)> extend = [&](std::int32_t begin) {
    if (static_cast<std::int32_t>(partition.size()) == stages - 1) {
      partition.push_back(layers);
      visit(partition);
      partition.pop_back();
      return;
    }
    for (std::int32_t end = begin + 1; end < layers; ++end) {
      partition.push_back(end);
      extend(end);
      partition.pop_back();
    }
  };
  extend(0);
}

bool complete(const Partition& partition) {
  std::int32_t begin = 0;
  for (const std::int32_t end : partition) {
    if (end <= begin) return false;
    begin = end;
  }
  return true;
}

}  // namespace

TEST_CASE("galvatron: balanced partitions are the best there are", "[galvatron]") {
  const std::uint64_t seed = 9;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    const std::int32_t stages = 1 + i % 4;
    const PartitionCosts costs = random_costs(random, stages + i % 7, stages, i % 2 == 0);
    double least_ms = std::numeric_limits<double>::infinity();
    double least_mib = least_ms;
    each_partition(costs.layers, stages, [&](const Partition& partition) {
      if (!complete(partition)) return;
      least_ms = std::min(least_ms, costs.most_ms(partition));
      least_mib = std::min(least_mib, costs.most_mib(partition));
    });
    INFO("problem " << i);
    CHECK(complete(time_balanced(costs)));
    CHECK(costs.most_ms(time_balanced(costs)) == Approx(least_ms));
    CHECK(costs.most_mib(memory_balanced(costs)) == Approx(least_mib));
  }
}

TEST_CASE("galvatron: every step of the walk keeps condition 7", "[galvatron]") {
  const std::uint64_t seed = 5;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int steps = 0;
  int walks = 0;
  for (int i = 0; i < 400; ++i) {
    const std::int32_t stages = 2 + i % 5;
    // Memory that does not depend on the stage: its sum is the same for every partition, as equation 7 takes it.
    const PartitionCosts costs = random_costs(random, stages * 2 + i % 20, stages, false);
    const Partition by_memory = memory_balanced(costs);
    const Partition by_time = time_balanced(costs);
    const BalanceDegrees from = balance_degrees(costs, by_memory);
    const BalanceDegrees to = balance_degrees(costs, by_time);
    CHECK(from.time <= to.time + 1e-12);
    CHECK(from.memory >= to.memory - 1e-12);
    std::deque<Partition> queue{by_memory};
    std::set<Partition> seen{by_memory};
    const int before = steps;
    while (!queue.empty()) {
      const Partition partition = queue.front();
      queue.pop_front();
      for (const Partition& next : adjustments(costs, partition, 1e9, costs.most_mib(by_time))) {
        ++steps;
        const BalanceDegrees was = balance_degrees(costs, partition);
        const BalanceDegrees is = balance_degrees(costs, next);
        INFO("problem " << i);
        CHECK(complete(next));
        CHECK(is.time >= was.time - 1e-9);   // equation 8
        CHECK(is.time >= from.time - 1e-9);  // condition 7
        CHECK(is.time <= to.time + 1e-9);
        CHECK(is.memory >= to.memory - 1e-9);
        CHECK(is.memory <= from.memory + 1e-9);
        if (seen.insert(next).second) queue.push_back(next);
      }
    }
    walks += steps > before ? 1 : 0;
  }
  CHECK(walks > 100);
}

TEST_CASE("galvatron: with microbatches in flight no step is slower or fuller than the two ends allow", "[galvatron]") {
  const std::uint64_t seed = 6;
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  int steps = 0;
  for (int i = 0; i < 200; ++i) {
    const std::int32_t stages = 2 + i % 4;
    const PartitionCosts costs = random_costs(random, stages * 2 + i % 16, stages, true);
    const Partition by_time = time_balanced(costs);
    const double limit = costs.most_mib(memory_balanced(costs)) * 1.2;
    for (const Partition& next : adjustments(costs, memory_balanced(costs), limit, costs.most_mib(by_time))) {
      ++steps;
      CHECK(costs.most_ms(next) <= costs.most_ms(memory_balanced(costs)) * (1 + 1e-8));
      CHECK(costs.most_mib(next) <= std::min(limit, costs.most_mib(by_time)) * (1 + 1e-8));
    }
  }
  CHECK(steps > 20);
}

TEST_CASE("galvatron: balance degrees of equation 6", "[galvatron]") {
  PartitionCosts costs{4, 4, {1, 1, 1, 1}, std::vector<double>(16, 2), {0, 0, 0, 0}};
  const BalanceDegrees even = balance_degrees(costs, {1, 2, 3, 4});
  CHECK(even.time == Approx(0.75));
  CHECK(even.memory == Approx(0.75));
  costs.ms = {3, 1, 1, 1};
  CHECK(balance_degrees(costs, {1, 2, 3, 4}).time == Approx(0.5));
  CHECK(neighbours({1, 2, 4}) == std::vector<Partition>{{2, 3, 4}, {1, 3, 4}});
  CHECK(even_partition(10, 4) == Partition{2, 4, 6, 10});
}
