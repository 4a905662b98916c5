#include "solvers/autopipe/slicer.hpp"

namespace trimtab::tuner::autopipe {
namespace {

// Ends of the halves of one microbatch after another, stage by stage, as if no backward and no sender were in the way.
class HalfEnds {
 public:
  explicit HalfEnds(const Pipeline& of)
      : of_(of), blocking_(of.transfers == Transfers::kBlocking), ends_(static_cast<std::size_t>(of.stages), 0.0) {}

  // The two halves of the next microbatch on stages [0, stages).
  void next(std::int32_t stages) {
    half(stages);
    half(stages);
  }
  [[nodiscard]] double end(std::int32_t stage) const { return ends_[stage]; }

 private:
  void half(std::int32_t stages) {
    for (std::int32_t x = 0; x < stages; ++x) {
      double begin = ends_[x];
      if (x > 0) {
        const double hop = of_.transfer[x - 1] / 2;
        begin = blocking_ ? std::max(begin, ends_[x - 1]) + hop : std::max(begin, ends_[x - 1] + hop);
      }
      ends_[x] = begin + of_.forward[x] / 2;
    }
  }

  const Pipeline& of_;
  const bool blocking_;
  std::vector<double> ends_;
};

}  // namespace

SlicingGain best_slicing(Pipeline pipeline, PipelineTimes& scratch) {
  pipeline.sliced = 0;
  SlicingGain gain;
  gain.plain = gain.best = step_time(pipeline, scratch);
  for (pipeline.sliced = 1; pipeline.sliced <= most_sliced(pipeline); ++pipeline.sliced) {
    const double time = step_time(pipeline, scratch);
    if (time >= gain.best) continue;
    gain.best = time;
    gain.sliced = pipeline.sliced;
  }
  return gain;
}

std::int32_t algorithm_2(const Pipeline& pipeline) {
  const std::int32_t last = pipeline.stages - 1;
  const std::int32_t most = most_sliced(pipeline);
  if (most <= 0) return 0;
  const bool blocking = pipeline.transfers == Transfers::kBlocking;
  HalfEnds halves(pipeline);
  halves.next(pipeline.stages);
  // When stage x may begin its second steady forward: the first backward has come up to it and ended.
  std::vector<double> slot(static_cast<std::size_t>(pipeline.stages));
  double drained = halves.end(last);
  for (std::int32_t x = last; x >= 0; --x) {
    if (x < last) drained += pipeline.transfer[x];
    drained += pipeline.backward[x];
    slot[x] = drained + (blocking && x > 0 ? pipeline.transfer[x - 1] : 0);
  }
  for (std::int32_t sliced = 1; sliced < most; ++sliced) {
    if (sliced > 1) halves.next(pipeline.stages - sliced + 1);
    // The latest that the microbatch after may begin, whole, to be at its slot on stage p - sliced in time.
    double latest = slot[pipeline.stages - sliced];
    for (std::int32_t x = 0; x < pipeline.stages - sliced; ++x) latest -= pipeline.forward[x] + pipeline.transfer[x];
    if (latest >= halves.end(0)) return sliced;
  }
  return most;
}

double startup_overhead(const Pipeline& pipeline, bool sliced) {
  double time = 0;
  for (std::int32_t x = 0; x + 1 < pipeline.stages; ++x) time += pipeline.forward[x] + pipeline.transfer[x];
  return sliced ? time * pipeline.half_slowdown / 2 : time;
}

}  // namespace trimtab::tuner::autopipe
