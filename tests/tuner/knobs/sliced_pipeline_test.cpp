// A sliced warm-up: held to an event list that shares nothing with the simulation, and skipped rounds to every round.

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

enum class Part { kForward, kFirst, kSecond, kBackward };

// Lists of actions by stage, run when what they need has ended.
class SlicedEvents {
 public:
  SlicedEvents(const std::vector<PipelineStage>& stages, const std::vector<HalfPass>& halves, int microbatches,
               int sliced)
      : stages_(stages), halves_(halves), microbatches_(microbatches), sliced_(sliced), free_(stages.size(), 0.0) {
    const int count = static_cast<int>(stages.size());
    for (int s = 0; s < count; ++s) {
      std::deque<std::pair<Part, int>> actions;
      const int ahead = std::min(microbatches, count - 1 - s);
      int forward = 0;
      const auto add_forward = [&] {
        if (forward < sliced && forward <= ahead) {
          actions.emplace_back(Part::kFirst, forward);
          actions.emplace_back(Part::kSecond, forward++);
        } else {
          actions.emplace_back(Part::kForward, forward++);
        }
      };
      while (forward < ahead) add_forward();
      for (int backward = 0; backward < microbatches; ++backward) {
        if (forward < microbatches) add_forward();
        actions.emplace_back(Part::kBackward, backward);
      }
      queues_.push_back(actions);
    }
  }

  double run() {
    bool progress = true;
    while (progress) {
      progress = false;
      for (std::size_t s = 0; s < stages_.size(); ++s) progress = try_next(s) || progress;
    }
    for (const auto& queue : queues_) REQUIRE(queue.empty());
    return end_;
  }

 private:
  [[nodiscard]] std::optional<double> ended(std::size_t s, Part part, int k) const {
    const auto found = ends_.find({s, part, k});
    return found == ends_.end() ? std::nullopt : std::optional(found->second);
  }

  // A stage that ran halves while it filled the pipeline sends halves; else everything once its forward has ended.
  [[nodiscard]] std::optional<double> input(std::size_t s, Part part, int k) const {
    if (part == Part::kBackward) {
      if (s + 1 == stages_.size()) return 0.0;
      const auto sent = ended(s + 1, part, k);
      return sent ? std::optional(*sent + stages_[s].transfer) : std::nullopt;
    }
    if (s == 0) return 0.0;
    if (part != Part::kForward) {
      const auto sent = ended(s - 1, part, k);
      return sent ? std::optional(*sent + halves_[s - 1].transfer) : std::nullopt;
    }
    auto sent = ended(s - 1, Part::kForward, k);
    if (!sent) sent = ended(s - 1, Part::kSecond, k);
    return sent ? std::optional(*sent + stages_[s - 1].transfer) : std::nullopt;
  }

  [[nodiscard]] double length(std::size_t s, Part part, int k) const {
    if (part == Part::kForward) return stages_[s].forward;
    if (part != Part::kBackward) return halves_[s].forward;
    return k + 1 == microbatches_ ? stages_[s].last_backward : stages_[s].backward;
  }

  bool try_next(std::size_t s) {
    if (queues_[s].empty()) return false;
    const auto [part, k] = queues_[s].front();
    const std::optional<double> arrival = input(s, part, k);
    if (!arrival) return false;
    queues_[s].pop_front();
    const double begin = std::max(free_[s], *arrival);
    free_[s] = begin + length(s, part, k);
    ends_[{s, part, k}] = free_[s];
    if (part == Part::kBackward && k + 1 == microbatches_) end_ = std::max(end_, begin + stages_[s].tail);
    return true;
  }

  const std::vector<PipelineStage>& stages_;
  const std::vector<HalfPass>& halves_;
  int microbatches_;
  int sliced_;
  std::vector<std::deque<std::pair<Part, int>>> queues_;
  std::map<std::tuple<std::size_t, Part, int>, double> ends_;
  std::vector<double> free_;
  double end_ = 0;
};

struct SlicedPipeline {
  std::vector<PipelineStage> stages;
  std::vector<HalfPass> halves;
  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(stages.size()); }
};

SlicedPipeline random_pipeline(Random& random) {
  SlicedPipeline pipeline;
  const std::int64_t count = random.between(1, 8);
  const double spread = random.below(3) == 0 ? 0.01 : 1.0;
  for (std::int64_t s = 0; s < count; ++s) {
    PipelineStage stage;
    stage.forward = 1 + spread * random.uniform();
    stage.backward = 2 + 3 * spread * random.uniform();
    stage.last_backward = stage.backward * (1 + random.uniform());
    stage.tail = stage.last_backward + (random.below(2) == 0 ? 0 : random.uniform() * 4);
    stage.transfer = s + 1 < count ? random.uniform() * (random.below(4) == 0 ? 4.0 : 0.2) : 0;
    pipeline.stages.push_back(stage);
    pipeline.halves.push_back({stage.forward * (0.4 + 0.4 * random.uniform()), stage.transfer * 0.6});
  }
  return pipeline;
}

TEST_CASE("a sliced warm-up agrees with an event list on random pipelines") {
  const std::uint64_t seed = 20260311;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 4000; ++i) {
    const SlicedPipeline pipeline = random_pipeline(random);
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 20));
    const auto sliced = static_cast<std::int32_t>(random.between(0, std::min(pipeline.count(), microbatches)));
    INFO("case " << i << ": " << pipeline.count() << " stages, " << microbatches << " microbatches, " << sliced
                 << " sliced");
    const double simulated = simulate(pipeline.stages.data(), pipeline.count(), microbatches, ScheduleKind::k1F1B,
                                      scratch, {}, {sliced, pipeline.halves.data()});
    const double expected = SlicedEvents(pipeline.stages, pipeline.halves, microbatches, sliced).run();
    REQUIRE(simulated == Approx(expected).epsilon(1e-12));
  }
}

PricedPlan priced_with(const SlicedPipeline& pipeline, std::int32_t microbatches, std::int32_t sliced) {
  PricedPlan priced;
  priced.pipeline = pipeline.stages;
  priced.microbatches = microbatches;
  priced.halves = pipeline.halves;
  priced.sliced_microbatches = sliced;
  return priced;
}

TEST_CASE("skipped rounds after a sliced warm-up give the very step that every round gives") {
  const std::uint64_t seed = 41;
  INFO("seed " << seed);
  Random random(seed);
  PipelineScratch scratch;
  for (int i = 0; i < 400; ++i) {
    const SlicedPipeline pipeline = random_pipeline(random);
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 2000));
    const auto sliced = static_cast<std::int32_t>(random.between(1, std::min(pipeline.count(), microbatches)));
    INFO("case " << i);
    const double skipped = simulate(pipeline.stages.data(), pipeline.count(), microbatches, ScheduleKind::k1F1B,
                                    scratch, {}, {sliced, pipeline.halves.data()});
    // A recorded step skips nothing.
    REQUIRE(skipped == record_step(priced_with(pipeline, microbatches, sliced)).end_ms);
  }
}

TEST_CASE("the critical path through a sliced warm-up adds up to the step") {
  const std::uint64_t seed = 77;
  INFO("seed " << seed);
  Random random(seed);
  for (int i = 0; i < 2000; ++i) {
    const SlicedPipeline pipeline = random_pipeline(random);
    const auto microbatches = static_cast<std::int32_t>(random.between(1, 12));
    const auto sliced = static_cast<std::int32_t>(random.between(1, std::min(pipeline.count(), microbatches)));
    const PricedPlan priced = priced_with(pipeline, microbatches, sliced);
    const RecordedStep step = record_step(priced);
    const CriticalPath path = critical_path(priced, step);
    double sum = pipeline.stages[static_cast<std::size_t>(path.end_stage)].tail;
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
      const PipelineStage& stage = pipeline.stages[s];
      sum += path.forwards[s] * stage.forward + path.backwards[s] * stage.backward +
             path.last_backwards[s] * stage.last_backward + path.transfers[s] * stage.transfer +
             path.half_forwards[s] * pipeline.halves[s].forward + path.half_transfers[s] * pipeline.halves[s].transfer;
    }
    INFO("case " << i);
    REQUIRE(sum == Approx(step.end_ms).epsilon(1e-9));
  }
}

TEST_CASE("slicing equal stages halves what the last one waits for") {
  // Four stages of forward 100 and backward 200, eight microbatches: 3300 whole, 3150 with one or more sliced.
  const std::vector<PipelineStage> stages(4, PipelineStage{100, 200, 200, 200, 0});
  const std::vector<HalfPass> halves(4, HalfPass{50, 0});
  PipelineScratch scratch;
  const auto step = [&](std::int32_t sliced) {
    return simulate(stages.data(), 4, 8, ScheduleKind::k1F1B, scratch, {}, {sliced, halves.data()});
  };
  CHECK(step(0) == Approx(3300));
  CHECK(step(1) == Approx(3150));
  CHECK(step(2) == Approx(3150));
  CHECK(step(3) == Approx(3150));
}

}  // namespace
}  // namespace trimtab::tuner
