#pragma once

// The one critical path of a recorded step, and its master stage (AutoPipe, section III-B): of all longest paths the
// one that runs closest to the last stage. Pure.

#include "solvers/autopipe/recurrences.hpp"

namespace trimtab::tuner::autopipe {

struct PipelineAction {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  bool forward = true;
  Part part = Part::kWhole;
  double begin = 0;
  double end = 0;
};

// When every action of a step began. Reused between steps; no allocation once grown.
class RecordedPipeline {
 public:
  void record(const Pipeline& pipeline, PipelineTimes& scratch);

  [[nodiscard]] double end() const { return end_; }
  // Of a microbatch that runs in halves: its first half.
  [[nodiscard]] double forward_begin(std::int32_t x, std::int32_t j) const { return forward_[at(x, j)]; }
  [[nodiscard]] double second_half_begin(std::int32_t x, std::int32_t j) const { return second_[at(x, j)]; }
  [[nodiscard]] double backward_begin(std::int32_t x, std::int32_t y) const { return backward_[at(x, y)]; }

 private:
  struct Recorder;
  [[nodiscard]] std::size_t at(std::int32_t x, std::int32_t j) const {
    return static_cast<std::size_t>(x) * static_cast<std::size_t>(microbatches_) + static_cast<std::size_t>(j);
  }

  std::int32_t microbatches_ = 1;
  double end_ = 0;
  std::vector<double> forward_, second_, backward_;
};

// Last action first.
[[nodiscard]] std::vector<PipelineAction> critical_path(const Pipeline& pipeline, const RecordedPipeline& recorded);

// Where the critical path stays longest while the stage is in its steady phase; the later stage of two. A step without
// such a stay (few microbatches): the stage with most work.
[[nodiscard]] std::int32_t master_stage(const Pipeline& pipeline, const RecordedPipeline& recorded);

}  // namespace trimtab::tuner::autopipe
