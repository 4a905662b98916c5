#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <tuple>

#include "base/random.hpp"
#include "native/step/recorded_step.hpp"
#include "solvers/pipeline.hpp"

namespace trimtab::tuner {
namespace {

// A second implementation that shares nothing with the first: lists of actions, run when what they need has ended.
class EventList {
 public:
  EventList(const std::vector<PipelineStage>& stages, int microbatches, bool gpipe)
      : stages_(stages), microbatches_(microbatches) {
    const int count = static_cast<int>(stages.size());
    for (int s = 0; s < count; ++s) {
      std::deque<std::pair<bool, int>> actions;  // forward?, microbatch
      int forward = 0;
      int backward = 0;
      const int ahead = gpipe ? microbatches : std::min(microbatches, count - 1 - s);
      while (forward < ahead) actions.emplace_back(true, forward++);
      while (forward < microbatches) {
        actions.emplace_back(true, forward++);
        actions.emplace_back(false, backward++);
      }
      while (backward < microbatches) actions.emplace_back(false, backward++);
      queues_.push_back(actions);
    }
    free_.assign(stages.size(), 0.0);
  }

  double run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) progress = try_next(s) || progress;
    }
    double end = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      REQUIRE(queues_[s].empty());
      end = std::max(end, last_begin_[s] + stages_[s].tail);
    }
    return end;
  }

 private:
  std::optional<double> arrival(std::size_t s, bool forward, int k) {
    const bool from_outside = forward ? s > 0 : s + 1 < stages_.size();
    if (!from_outside) return 0.0;
    const std::size_t sender = forward ? s - 1 : s + 1;
    const double transfer = stages_[forward ? s - 1 : s].transfer;
    const auto found = ends_.find({sender, forward, k});
    if (found == ends_.end()) return std::nullopt;
    return found->second + transfer;
  }

  bool try_next(std::size_t s) {
    if (queues_[s].empty()) return false;
    const auto [forward, k] = queues_[s].front();
    const std::optional<double> input = arrival(s, forward, k);
    if (!input) return false;
    queues_[s].pop_front();
    const double begin = std::max(free_[s], *input);
    const bool last = k == microbatches_ - 1;
    const double length = forward ? stages_[s].forward : last ? stages_[s].last_backward : stages_[s].backward;
    if (!forward && last) last_begin_[s] = begin;
    free_[s] = begin + length;
    ends_[{s, forward, k}] = free_[s];
    return true;
  }

  const std::vector<PipelineStage>& stages_;
  int microbatches_;
  std::vector<std::deque<std::pair<bool, int>>> queues_;
  std::map<std::tuple<std::size_t, bool, int>, double> ends_;
  std::map<std::size_t, double> last_begin_;
  std::vector<double> free_;
};

std::vector<PipelineStage> random_pipeline(Random& random) {
  std::vector<PipelineStage> stages;
  const std::int64_t count = random.between(1, 7);
  for (std::int64_t s = 0; s < count; ++s) {
    PipelineStage stage;
    stage.forward = random.uniform() * 3;
    stage.backward = random.uniform() * 6;
    stage.last_backward = stage.backward * (1 + random.uniform());
    stage.tail = stage.last_backward + (random.below(2) == 0 ? 0 : random.uniform() * 10);
    stage.transfer = s + 1 < count ? random.uniform() * (random.below(4) == 0 ? 8.0 : 1.0) : 0;
    stages.push_back(stage);
  }
  return stages;
}

TEST_CASE("the simulation agrees with an event list on random pipelines") {
  const std::uint64_t seed = 20240611;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 4000; ++i) {
    const std::vector<PipelineStage> stages = random_pipeline(random);
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 14));
    const bool gpipe = random.below(4) == 0;
    const double simulated = simulate(stages.data(), static_cast<std::int32_t>(stages.size()), microbatches,
                                      gpipe ? ScheduleKind::kGPipe : ScheduleKind::k1F1B, scratch);
    const double expected = EventList(stages, microbatches, gpipe).run();
    INFO("case " << i << ": " << stages.size() << " stages, " << microbatches << " microbatches");
    REQUIRE(simulated == Approx(expected).epsilon(1e-12));
  }
}

TEST_CASE("one stage takes the sum of its passes and its tail") {
  const PipelineStage stage{1.0, 2.0, 2.5, 4.0, 0.0};
  PipelineScratch scratch;
  CHECK(simulate(&stage, 1, 3, ScheduleKind::k1F1B, scratch) == Approx(3 * 1.0 + 2 * 2.0 + 4.0));
}

TEST_CASE("equal stages without transfers take (N + S - 1) rounds") {
  const std::vector<PipelineStage> stages(4, PipelineStage{1.0, 2.0, 2.0, 2.0, 0.0});
  PipelineScratch scratch;
  CHECK(simulate(stages.data(), 4, 8, ScheduleKind::k1F1B, scratch) == Approx((8 + 3) * 3.0));
  CHECK(simulate(stages.data(), 4, 8, ScheduleKind::kGPipe, scratch) == Approx((8 + 3) * 3.0));
}

TEST_CASE("a slow transfer is waited for twice a microbatch when it dominates") {
  // Two stages, one microbatch: forward, transfer, forward, backward, transfer, backward.
  const std::vector<PipelineStage> stages{{1, 2, 2, 2, 10}, {3, 4, 4, 4, 0}};
  PipelineScratch scratch;
  CHECK(simulate(stages.data(), 2, 1, ScheduleKind::k1F1B, scratch) == Approx(1 + 10 + 3 + 4 + 10 + 2));
}

TEST_CASE("a slower stage or transfer never makes a step faster") {
  Random random(7);
  PipelineScratch scratch;
  for (int i = 0; i < 2000; ++i) {
    std::vector<PipelineStage> stages = random_pipeline(random);
    const auto count = static_cast<std::int32_t>(stages.size());
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 9));
    const double before = simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch);
    PipelineStage& slower = stages[random.below(stages.size())];
    slower.forward += random.uniform();
    slower.backward += random.uniform();
    const double more = random.uniform();
    slower.last_backward += more;
    slower.tail += more;
    slower.transfer += random.uniform();
    REQUIRE(simulate(stages.data(), count, microbatches, ScheduleKind::k1F1B, scratch) >= before - 1e-9);
  }
}

PricedPlan priced_with(const std::vector<PipelineStage>& stages, std::int32_t microbatches, bool gpipe) {
  PricedPlan priced;
  priced.pipeline = stages;
  priced.microbatches = microbatches;
  priced.kind = gpipe ? ScheduleKind::kGPipe : ScheduleKind::k1F1B;
  return priced;
}

TEST_CASE("the critical path's actions and transfers add up to the step") {
  Random random(99);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<PipelineStage> stages = random_pipeline(random);
    const PricedPlan priced =
        priced_with(stages, static_cast<std::int32_t>(random.between(1, 12)), random.below(4) == 0);
    const RecordedStep step = record_step(priced);
    const CriticalPath path = critical_path(priced, step);
    double sum = stages[static_cast<std::size_t>(path.end_stage)].tail;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      sum += path.forwards[s] * stages[s].forward + path.backwards[s] * stages[s].backward +
             path.last_backwards[s] * stages[s].last_backward + path.transfers[s] * stages[s].transfer;
    }
    INFO("case " << i);
    REQUIRE(sum == Approx(step.end_ms).epsilon(1e-9));
  }
}

}  // namespace
}  // namespace trimtab::tuner
