// Skipping rounds of a pipeline must not change a step's time.

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"
#include "solvers/pipeline.hpp"

namespace trimtab::tuner {
namespace {

struct Step {
  static constexpr bool kSkips = false;
  void forward(std::int32_t, std::int32_t, double, double, double) {}
  void half(std::int32_t, std::int32_t, bool, double, double, double) {}
  void backward(std::int32_t, std::int32_t, double, double, double) {}
};

// The same simulation, every round of it.
double stepped(const std::vector<PipelineStage>& stages, std::int32_t microbatches, const TiedReductions& ties) {
  PipelineScratch scratch;
  Step record;
  const auto count = static_cast<std::int32_t>(stages.size());
  Simulation<Step> simulation(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch, record);
  const double* const ends = simulation.run();
  synchronize(simulation.stages(), count, ends, ties, scratch.ready, nullptr);
  double end = 0;
  for (std::int32_t s = 0; s < count; ++s) end = std::max(end, scratch.ready[s] + simulation.stages()[s].after);
  return end;
}

// By the definition of 1F1B, stage by stage and in plain doubles, rounded to no grid.
double defined(const std::vector<PipelineStage>& stages, std::int32_t microbatches) {
  const auto count = static_cast<std::int32_t>(stages.size());
  std::vector<double> free(stages.size(), 0);
  std::vector<std::vector<double>> forward(stages.size(), std::vector<double>(microbatches, 0));
  std::vector<std::vector<double>> backward(stages.size(), std::vector<double>(microbatches, 0));
  std::vector<std::int32_t> forwards(stages.size(), 0);
  std::vector<std::int32_t> backwards(stages.size(), 0);
  double last_begin = 0;
  double end = 0;
  bool progress = true;
  while (progress) {
    progress = false;
    for (std::int32_t s = 0; s < count; ++s) {
      const std::int32_t ahead = std::min(microbatches, count - s - 1) + 1;
      for (;;) {
        const std::int32_t f = forwards[s];
        const std::int32_t b = backwards[s];
        if (b == microbatches) break;
        const bool runs_forward = f < microbatches && f - b < ahead;
        if (runs_forward && s > 0 && forwards[s - 1] <= f) break;
        if (!runs_forward && s + 1 < count && backwards[s + 1] <= b) break;
        double arrival = 0;
        if (runs_forward && s > 0) arrival = forward[s - 1][f] + stages[s - 1].transfer;
        if (!runs_forward && s + 1 < count) arrival = backward[s + 1][b] + stages[s].transfer;
        const double begin = std::max(free[s], arrival);
        const bool last = b == microbatches - 1;
        if (runs_forward) {
          free[s] = forward[s][f] = begin + stages[s].forward;
          ++forwards[s];
        } else {
          last_begin = begin;
          free[s] = backward[s][b] = begin + (last ? stages[s].last_backward : stages[s].backward);
          ++backwards[s];
          if (last) end = std::max(end, last_begin + stages[s].tail);
        }
        progress = true;
      }
    }
  }
  return end;
}

// Stages that are alike up to `spread`, on their own time scale; sometimes whole numbers, sometimes slow links.
std::vector<PipelineStage> random_stages(Random& random) {
  const std::int64_t count = random.between(1, 12);
  const double spreads[] = {0, 1e-9, 1e-5, 1e-2, 0.5, 3};
  const double spread = spreads[random.below(6)];
  const bool whole = random.below(4) == 0;
  const bool slow = random.below(3) == 0;
  const double scale = std::pow(10.0, static_cast<double>(random.between(-3, 4)));
  std::vector<PipelineStage> stages;
  for (std::int64_t s = 0; s < count; ++s) {
    const auto value = [&](double mean) {
      const double drawn = mean * (1 + spread * random.uniform());
      return whole ? std::ceil(4 * drawn) : drawn * scale;
    };
    PipelineStage stage;
    stage.forward = value(1);
    stage.backward = value(2);
    stage.last_backward = stage.backward + value(0.5);
    stage.after = value(0.3);
    stage.tail = stage.last_backward + value(0.2) + stage.after;
    stage.transfer = s + 1 < count ? value(slow ? 2 : 0.05) : 0;
    stages.push_back(stage);
  }
  return stages;
}

TEST_CASE("skipped rounds give the very step that every round gives, on random pipelines") {
  const std::uint64_t seed = 20250301;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 3000; ++i) {
    const std::vector<PipelineStage> stages = random_stages(random);
    const auto count = static_cast<std::int32_t>(stages.size());
    const auto microbatches =
        static_cast<std::int32_t>(random.below(3) == 0 ? random.between(1, 40) : random.between(1, 4096));
    TiedReductions ties;
    if (count > 1 && random.below(3) == 0) {
      ties.members = {0, count - 1};
      ties.reductions.push_back({0, 2, 0.7});
    }
    INFO("case " << i << ": " << count << " stages, " << microbatches << " microbatches");
    const double skipped = simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch, ties);
    REQUIRE(skipped == stepped(stages, microbatches, ties));
  }
}

TEST_CASE("rounding times to the grid changes a step by less than 1e-12 of itself") {
  const std::uint64_t seed = 7;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 300; ++i) {
    const std::vector<PipelineStage> stages = random_stages(random);
    const auto count = static_cast<std::int32_t>(stages.size());
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 4096));
    INFO("case " << i << ": " << count << " stages, " << microbatches << " microbatches");
    const double expected = defined(stages, microbatches);
    const double simulated = simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch);
    REQUIRE(std::abs(simulated - expected) <= 1e-12 * expected);
  }
}

TEST_CASE("a missing transfer makes a step endless, not wrong") {
  std::vector<PipelineStage> stages(3, PipelineStage{1, 2, 2, 2, 0.1, 0});
  stages[1].transfer = std::numeric_limits<double>::infinity();
  PipelineScratch scratch;
  CHECK(std::isinf(simulate(stages.data(), 3, 100, ScheduleKind::k1F1B, scratch)));
}

}  // namespace
}  // namespace trimtab::tuner
