// Floors of a pipeline's last stages against its simulation, in random pipelines.

#include "solvers/suffix_floor.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "base/random.hpp"
#include "solvers/pipeline.hpp"

namespace trimtab::tuner {
namespace {

PipelineStage random_stage(Random& random, bool even) {
  const auto time = [&](std::int64_t least, std::int64_t most) {
    return static_cast<double>(even ? most : random.between(least, most)) / 16;
  };
  PipelineStage stage;
  stage.forward = time(1, 40);
  stage.backward = time(1, 80);
  // Sharded gradients: the last backward may end before its scatters, which other backwards wait for.
  stage.last_backward = stage.backward * static_cast<double>(random.between(8, 20)) / 10;
  stage.after = time(0, 20);
  stage.tail = stage.last_backward + time(0, 60) + stage.after;
  stage.transfer = random.below(3) == 0 ? 0 : time(0, 30);
  return stage;
}

StageFloor floor_of(const PipelineStage& stage) {
  return {stage.forward,       stage.backward, stage.forward + stage.backward,
          stage.last_backward, stage.tail,     stage.forward};
}

// Only the sum of the passes is known, and a little of either.
StageFloor vague(StageFloor floor, double share) {
  floor.forward *= share;
  floor.last -= floor.backward * (1 - share);
  floor.tail -= floor.backward * (1 - share);
  floor.backward *= share;
  floor.first *= share;
  return floor;
}

double bound(const std::vector<PipelineStage>& stages, std::int32_t microbatches, double share) {
  const auto count = static_cast<std::int32_t>(stages.size());
  const auto floor = [&](std::int32_t s) {
    return share < 1 ? vague(floor_of(stages[s]), share) : floor_of(stages[s]);
  };
  SuffixFloor of = last_stage(floor(count - 1), microbatches);
  for (std::int32_t s = count - 2; s >= 0; --s) {
    of = put_before(floor(s), {stages[s].transfer, stages[s].transfer}, of, count - 1 - s, microbatches);
  }
  return of.end;
}

double simulated(std::vector<PipelineStage> stages, std::int32_t microbatches) {
  stages.back().transfer = 0;
  PipelineScratch scratch;
  return simulate(stages.data(), static_cast<std::int32_t>(stages.size()), microbatches, ScheduleKind::k1F1B, scratch);
}

TEST_CASE("floors of pipelines are never above their simulation") {
  Random random(2101);
  int met = 0;
  double largest = 0;
  constexpr int kCases = 20000;
  for (int i = 0; i < kCases; ++i) {
    std::vector<PipelineStage> stages;
    const bool even = random.below(4) == 0;
    const std::int64_t count = random.between(1, 6);
    while (static_cast<std::int64_t>(stages.size()) < count) stages.push_back(random_stage(random, even));
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 20));
    const double real = simulated(stages, microbatches);
    const double found = bound(stages, microbatches, 1);
    INFO("seed 2101, case " << i << ", " << count << " stages, " << microbatches << " microbatches");
    REQUIRE(found <= real * (1 + 1e-11));
    REQUIRE(bound(stages, microbatches, 0.5) <= real * (1 + 1e-11));
    REQUIRE(found >= bound(stages, microbatches, 0.5) * (1 - 1e-11));
    if (found >= real * (1 - 1e-11)) ++met;
    largest = std::max(largest, 1 - found / real);
  }
  std::printf("floors meet the simulation in %d of %d pipelines, seed 2101; largest distance %.1f %%\n", met, kCases,
              100 * largest);
  CHECK(met > kCases * 2 / 5);
}

TEST_CASE("floors of pipelines whose warm-up is sliced are never above their simulation") {
  const std::uint64_t seed = 2102;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 10000; ++i) {
    std::vector<PipelineStage> stages;
    std::vector<HalfPass> halves;
    const bool even = random.below(4) == 0;
    const auto count = static_cast<std::int32_t>(random.between(1, 6));
    for (std::int32_t s = 0; s < count; ++s) {
      stages.push_back(random_stage(random, even));
      if (s + 1 == count) stages.back().transfer = 0;
      const double share = static_cast<double>(random.between(5, 20)) / 16;  // even halves that take less than half
      halves.push_back({stages.back().forward * share, stages.back().transfer * share});
    }
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 20));
    const auto sliced = static_cast<std::int32_t>(random.between(0, std::min(count, microbatches)));
    const double real =
        simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch, {}, {sliced, halves.data()});
    SuffixFloor of;
    for (std::int32_t s = count - 1; s >= 0; --s) {
      StageFloor floor = floor_of(stages[s]);
      floor.first = std::min(stages[s].forward, halves[s].forward);
      floor.forward = std::min(stages[s].forward, 2 * halves[s].forward);
      floor.both = floor.forward + floor.backward;
      const TransferFloor transfer{std::min(stages[s].transfer, halves[s].transfer), stages[s].transfer};
      of = s + 1 == count ? last_stage(floor, microbatches)
                          : put_before(floor, transfer, of, count - 1 - s, microbatches);
    }
    INFO("case " << i << ", " << count << " stages, " << microbatches << " microbatches, " << sliced << " sliced");
    REQUIRE(of.end <= real * (1 + 1e-11));
  }
}

TEST_CASE("even stages: filling, draining and the round trips that transfers lengthen") {
  // Four stages of 1 + 2 ms, eight microbatches: 8 rounds of 3 and 3 stages to fill and drain.
  const StageFloor even{1, 2, 3, 2, 2, 1};
  SuffixFloor of = last_stage(even, 8);
  for (std::int32_t later = 1; later < 4; ++later) of = put_before(even, {0, 0}, of, later, 8);
  CHECK(of.end == Approx(8 * 3 + 3 * 3));
  // Two stages and a transfer of 1 ms: every two microbatches wait for a trip of 3 + 2 beside their own 3.
  of = put_before(even, {1, 1}, last_stage(even, 8), 1, 8);
  CHECK(of.end == Approx(8 * 3 + 4 * (3 + 2) - 3 * 3));
}

}  // namespace
}  // namespace trimtab::tuner
