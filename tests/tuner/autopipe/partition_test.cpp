#include <catch2/catch.hpp>
#include <cstdio>

#include "base/random.hpp"
#include "block_chains.hpp"
#include "solvers/autopipe/planner.hpp"
#include "vectors.hpp"

namespace trimtab::tuner {
namespace {

using autopipe::Balanced;
using autopipe::Blocks;
using autopipe::Ends;
using autopipe::PartitionFloor;
using autopipe::PartitionPlan;
using autopipe::Partitions;
using autopipe::Simulator;
using test::every_partition;
using test::limit_memory;
using test::random_blocks;

Blocks from_vector(const nlohmann::json& vector, bool blocking) {
  Blocks blocks;
  blocks.forward = vector.at("f").get<std::vector<double>>();
  blocks.backward = vector.at("b").get<std::vector<double>>();
  blocks.transfer.assign(blocks.forward.size(), vector.at("comm").get<double>());
  blocks.stages = vector.at("p");
  blocks.microbatches = vector.at("m");
  blocks.transfers = blocking ? Transfers::kBlocking : Transfers::kEager;
  return blocks;
}

TEST_CASE("every partition of the vectors: Algorithm 1, the authors' planner and the optimum", "[autopipe]") {
  const nlohmann::json vectors = test::autopipe_vectors();
  REQUIRE(vectors.at("partitions").size() == 19);
  for (const nlohmann::json& vector : vectors.at("partitions")) {
    for (const bool blocking : {false, true}) {
      INFO(vector.dump() << (blocking ? " blocking" : " eager"));
      const Partitions partitions(from_vector(vector, blocking));
      const nlohmann::json& times = vector.at(blocking ? "blocking" : "eager");
      Simulator simulator(partitions);
      const Balanced balanced(partitions);
      const Ends of_algorithm_1 = balanced.ends(partitions.blocks(), partitions.stages());
      CHECK(of_algorithm_1 == vector.at("alg1_ends").get<Ends>());
      CHECK(simulator.time(of_algorithm_1) == times.at("alg1").get<double>());
      CHECK(simulator.time(vector.at("merak_ends").get<Ends>()) == times.at("merak").get<double>());
      CHECK(simulator.time(times.at("optimum_ends").get<Ends>()) == times.at("optimum").get<double>());
      const PartitionPlan plan = plan_partition(partitions);
      CHECK(plan.exact());
      CHECK(plan.best.time == times.at("optimum").get<double>());
      CHECK(plan.shifted.time <= times.at("alg1").get<double>());
    }
  }
}

TEST_CASE("the search around the master stage finds what the authors' planner finds, at its m", "[autopipe]") {
  const nlohmann::json vectors = test::autopipe_vectors();
  for (const nlohmann::json& vector : vectors.at("partitions")) {
    INFO(vector.dump());
    Blocks blocks = from_vector(vector, true);
    blocks.microbatches = 2 * blocks.stages;
    const Partitions partitions(blocks);
    Simulator simulator(partitions);
    const autopipe::Planned found = shift_master(partitions, Balanced(partitions), simulator, 1'000'000'000);
    CHECK(found.time <= simulator.time(vector.at("merak_ends").get<Ends>()));
  }
}

struct Instance {
  Blocks blocks;
  bool limited = false;
};

// Every hop has transfers of its own.
void transfers_by_hop(Random& random, Blocks& blocks) {
  const std::vector<double> each = blocks.transfer;
  blocks.transfer.clear();
  for (std::int32_t hop = 0; hop + 1 < blocks.stages; ++hop) {
    const auto factor = static_cast<double>(random.between(1, 4));
    for (const double transfer : each) blocks.transfer.push_back(factor * transfer);
  }
  if (blocks.stages == 1) blocks.transfer = each;
}

// Large stages early in the pipeline recompute, all the more the larger they are.
std::function<double(std::int32_t, std::int32_t, std::int32_t)> recompute_like(std::int64_t each) {
  return [each](std::int32_t stage, std::int32_t begin, std::int32_t end) {
    return static_cast<double>(each * std::max(0, end - begin - 1 - stage / 2));
  };
}

Instance random_instance(Random& random, std::int32_t most_blocks, std::int32_t most_stages) {
  Instance instance;
  const auto count = static_cast<std::int32_t>(random.between(1, most_blocks));
  instance.blocks = random_blocks(random, count);
  instance.blocks.stages = static_cast<std::int32_t>(random.between(1, std::min(count, most_stages)));
  constexpr std::int32_t kRounds[] = {1, 2, 16};
  instance.blocks.microbatches = instance.blocks.stages * kRounds[random.below(3)];
  if (random.below(4) == 0) instance.blocks.microbatches = static_cast<std::int32_t>(random.between(1, 20));
  instance.blocks.transfers = random.below(2) == 0 ? Transfers::kEager : Transfers::kBlocking;
  if (random.below(4) == 0) transfers_by_hop(random, instance.blocks);
  instance.blocks.slices = random.below(4) == 0;
  if (random.below(4) == 0) instance.blocks.recompute = recompute_like(random.between(20, 60));
  instance.limited = random.below(2) == 0;
  if (instance.limited) limit_memory(random, 0.7 + random.uniform(), instance.blocks);
  return instance;
}

TEST_CASE("no partition is faster than its floor, nor than the least of floors", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5201;
  Random random(kSeed);
  for (int i = 0; i < 400; ++i) {
    const Instance instance = random_instance(random, 10, 7);
    INFO("seed " << kSeed << ", case " << i);
    const Partitions partitions(instance.blocks);
    const PartitionFloor floor(partitions);
    Simulator simulator(partitions);
    double least = autopipe::kNever;
    Ends ends(static_cast<std::size_t>(partitions.stages()));
    every_partition(
        partitions,
        [&](const Ends& of) {
          const double time = simulator.time(of);
          REQUIRE(floor.quick(of) <= floor.of(of));
          REQUIRE(floor.of(of) <= time);
          least = std::min(least, floor.quick(of));
        },
        ends);
    REQUIRE(floor.least() <= least);
    if (least == autopipe::kNever) continue;
    REQUIRE(partitions.allowed(floor.ends_of_least()));
    REQUIRE(floor.quick(floor.ends_of_least()) >= floor.least());
  }
}

TEST_CASE("Algorithm 1 has the lightest heaviest stage of all, for every prefix", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5202;
  Random random(kSeed);
  for (int i = 0; i < 300; ++i) {
    const Instance instance = random_instance(random, 10, 6);
    INFO("seed " << kSeed << ", case " << i << (instance.limited ? ", limited" : ""));
    const Partitions partitions(instance.blocks);
    const Balanced balanced(partitions);
    double least = autopipe::kNever;
    Ends ends(static_cast<std::size_t>(partitions.stages()));
    every_partition(
        partitions,
        [&](const Ends& of) {
          double heaviest = 0;
          for (std::size_t x = 0; x < of.size(); ++x) {
            heaviest = std::max(heaviest, partitions.work(x > 0 ? of[x - 1] : 0, of[x]));
          }
          least = std::min(least, heaviest);
        },
        ends);
    REQUIRE(balanced.heaviest(partitions.blocks(), partitions.stages()) == least);
    if (least < autopipe::kNever) {
      REQUIRE(partitions.allowed(balanced.ends(partitions.blocks(), partitions.stages())));
    }
  }
}

TEST_CASE("the planner is exact on small chains: every partition is its referee", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5203;
  Random random(kSeed);
  int fitting = 0;
  int plain = 0;
  double balanced = 0;
  double shifted = 0;
  for (int i = 0; i < 1500; ++i) {
    const Instance instance = random_instance(random, 14, 8);
    INFO("seed " << kSeed << ", case " << i << ", blocks " << instance.blocks.count() << ", stages "
                 << instance.blocks.stages << ", microbatches " << instance.blocks.microbatches
                 << (instance.limited ? ", limited" : "") << (instance.blocks.slices ? ", sliced" : ""));
    const Partitions partitions(instance.blocks);
    Simulator simulator(partitions);
    double least = autopipe::kNever;
    Ends ends(static_cast<std::size_t>(partitions.stages()));
    every_partition(
        partitions, [&](const Ends& of) { least = std::min(least, simulator.time(of)); }, ends);
    const PartitionPlan plan = plan_partition(partitions);
    REQUIRE(plan.best.time == least);
    if (least == autopipe::kNever) continue;
    REQUIRE(plan.exact());
    REQUIRE(plan.lower_bound == least);
    REQUIRE(partitions.allowed(plan.best.ends));
    REQUIRE(simulator.time(plan.best.ends) == least);
    ++fitting;
    if (instance.blocks.slices) continue;
    ++plain;
    balanced += plan.balanced.time / least - 1;
    shifted += plan.shifted.time / least - 1;
  }
  CHECK(fitting > 700);
  std::printf("autopipe, seed %llu: %d chains proven; Algorithm 1 alone %.3f %% above, the paper's search %.3f %%\n",
              static_cast<unsigned long long>(kSeed), fitting, 100 * balanced / plain, 100 * shifted / plain);
}

TEST_CASE("what the planner cannot prove it says, and its bound holds", "[autopipe]") {
  constexpr std::uint64_t kSeed = 5204;
  Random random(kSeed);
  for (int i = 0; i < 150; ++i) {
    const Instance instance = random_instance(random, 12, 6);
    INFO("seed " << kSeed << ", case " << i);
    const Partitions partitions(instance.blocks);
    const PartitionPlan exact = plan_partition(partitions);
    autopipe::PlannerOptions options;
    options.effort = random.below(2000);
    const PartitionPlan cut_short = plan_partition(partitions, options);
    REQUIRE((cut_short.best.time < autopipe::kNever) == (exact.best.time < autopipe::kNever));
    REQUIRE(cut_short.best.time >= exact.best.time);
    REQUIRE(cut_short.lower_bound <= exact.best.time);
    options = {};
    options.good_enough = exact.best.time * (0.9 + 0.2 * random.uniform());
    const PartitionPlan aimed = plan_partition(partitions, options);
    REQUIRE(aimed.lower_bound <= exact.best.time);
    REQUIRE(aimed.lower_bound >= std::min(options.good_enough, exact.best.time));
  }
}

}  // namespace
}  // namespace trimtab::tuner
