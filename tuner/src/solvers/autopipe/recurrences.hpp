#pragma once

// The 1F1B pipeline of AutoPipe's planner (Liu et al., CLUSTER 2022, section III-B) as recurrences over stages and
// microbatches. The paper's equations (1) to (5) leave out boundary values, the warm-up of slow stages and, while
// draining, the sender that is held up by its last transfer; these are complete: equal to an event simulation for any
// number of stages and microbatches, with transfers of any length per hop. Pure; no allocation once the scratch has
// grown.
//
// Transfers. Eager: a transfer begins when its producer ends and blocks nobody. Blocking: sender and receiver meet,
// both go on one transfer time later; a stage's output and the neighbour's gradient that cross are one exchange
// (Megatron).
//
// Slicing (section III-C). The first `sliced` microbatches are forwarded in two halves on stage x as far as its warm-up
// reaches (microbatch j <= w_x), each half `half_slowdown` times half as long; their halves are sent one by one, in
// half a transfer each, while both ends run halves (j < w_x), else whole. Nothing later is sliced.

#include <algorithm>

#include "schema/plan.hpp"

namespace trimtab::tuner::autopipe {

// A view of arrays that must outlive it. Times in one unit, whatever it is; none negative.
struct Pipeline {
  const double* forward = nullptr;   // of one microbatch, by stage
  const double* backward = nullptr;  // of one microbatch, recompute included
  const double* transfer = nullptr;  // from stage x to x + 1 or back; one fewer than stages
  std::int32_t stages = 1;
  std::int32_t microbatches = 1;
  Transfers transfers = Transfers::kBlocking;
  std::int32_t sliced = 0;   // microbatches, at most `microbatches`
  double half_slowdown = 1;  // alpha: what two halves take beside the whole

  // Forwards that stage x runs before its first backward, without the one of the steady phase.
  [[nodiscard]] std::int32_t warmup(std::int32_t x) const { return std::min(microbatches, stages - 1 - x); }
};

struct PipelineTimes {
  std::vector<double> forward_begin;  // of the latest forward, by stage
  std::vector<double> forward_end;
  std::vector<double> backward_begin;  // of the latest backward
  std::vector<double> backward_end;
};

enum class Part : std::uint8_t { kWhole, kFirstHalf, kSecondHalf };

struct NoTrace {
  void forward(std::int32_t /*stage*/, std::int32_t /*microbatch*/, Part /*part*/, double /*begin*/, double /*end*/) {}
  void backward(std::int32_t /*stage*/, std::int32_t /*microbatch*/, double /*begin*/, double /*end*/) {}
};

// `trace` sees every action, each stage's in the order in which it runs them.
template <typename Trace>
class Recurrences {
 public:
  Recurrences(const Pipeline& pipeline, PipelineTimes& times, Trace& trace)
      : of_(pipeline), blocking_(pipeline.transfers == Transfers::kBlocking), trace_(trace) {
    const auto stages = static_cast<std::size_t>(of_.stages);
    for (auto* array : {&times.forward_begin, &times.forward_end, &times.backward_begin, &times.backward_end}) {
      if (array->size() < stages) array->resize(stages);
      std::fill_n(array->begin(), stages, 0.0);
    }
    forward_begin_ = times.forward_begin.data();
    forward_end_ = times.forward_end.data();
    backward_begin_ = times.backward_begin.data();
    backward_end_ = times.backward_end.data();
  }

  // The step's time: the end of the first stage's last backward.
  double run() {
    warm_up();
    for (std::int32_t round = 0; round < of_.microbatches; ++round) {
      if (round > 0) forwards(round);
      backwards(round);
    }
    return backward_end_[0];
  }

 private:
  // Forwards up to the first of the steady phase. Halves and wholes are units; unit by unit, all stages.
  void warm_up() {
    const std::int32_t most = std::min(of_.microbatches, of_.stages);
    for (std::int32_t j = 0; j < most; ++j) {
      if (j < of_.sliced) {
        unit(j, Part::kFirstHalf);
        unit(j, Part::kSecondHalf);
      } else {
        unit(j, Part::kWhole);
      }
    }
  }

  void unit(std::int32_t j, Part part) {
    const double share = part == Part::kWhole ? 1.0 : 0.5;
    const double work = part == Part::kWhole ? 1.0 : 0.5 * of_.half_slowdown;
    for (std::int32_t x = 0; x < of_.stages && j <= of_.warmup(x); ++x) {
      const double own = j == 0 && part != Part::kSecondHalf ? 0 : released(x, j, part);
      double begin = own;
      if (x > 0) {
        const double hop = share * of_.transfer[x - 1];
        begin = blocking_ ? std::max(own, forward_end_[x - 1]) + hop : std::max(own, forward_end_[x - 1] + hop);
      }
      forward_begin_[x] = begin;
      forward_end_[x] = begin + work * of_.forward[x];
      trace_.forward(x, j, part, begin, forward_end_[x]);
    }
  }

  // When stage x is done with the unit before this one: computed and, where its sender is held up, received by the next
  // stage, which has then begun it. The first half of microbatch w_x is not sent by itself.
  [[nodiscard]] double released(std::int32_t x, std::int32_t j, Part part) const {
    const bool unsent = part == Part::kSecondHalf && j == of_.warmup(x);
    if (!blocking_ || x == of_.stages - 1 || unsent) return forward_end_[x];
    return forward_begin_[x + 1];
  }

  // Forward w_x + round of each stage needs what stage x - 1 ran in the round before, still its latest from last to
  // first.
  void forwards(std::int32_t round) {
    const std::int32_t first = std::max(0, of_.stages - of_.microbatches + round);
    for (std::int32_t x = of_.stages - 1; x >= first; --x) {
      double begin = backward_end_[x];
      if (x > 0) {
        const double hop = of_.transfer[x - 1];
        begin = blocking_ ? std::max(begin, forward_end_[x - 1]) + hop : std::max(begin, forward_end_[x - 1] + hop);
      }
      forward_begin_[x] = begin;
      forward_end_[x] = begin + of_.forward[x];
      trace_.forward(x, of_.warmup(x) + round, Part::kWhole, begin, forward_end_[x]);
    }
  }

  void backwards(std::int32_t round) {
    const std::int32_t steady = std::max(0, of_.stages - of_.microbatches + round);
    for (std::int32_t x = of_.stages - 1; x >= 0; --x) {
      double begin = x >= steady || round == 0 ? forward_end_[x] : backward_end_[x];
      if (x + 1 < of_.stages) {
        const double hop = of_.transfer[x];
        if (blocking_) {
          begin = std::max(begin, backward_end_[x + 1]);
          // While draining, the gradient before must have been taken by stage x - 1.
          if (x < steady && x > 0 && round > 0) begin = std::max(begin, backward_begin_[x - 1]);
          begin += hop;
        } else {
          begin = std::max(begin, backward_end_[x + 1] + hop);
        }
      }
      backward_begin_[x] = begin;
      backward_end_[x] = begin + of_.backward[x];
      trace_.backward(x, round, begin, backward_end_[x]);
    }
  }

  const Pipeline of_;
  const bool blocking_;
  Trace& trace_;
  double* forward_begin_;
  double* forward_end_;
  double* backward_begin_;
  double* backward_end_;
};

// REQUIRES: at least one stage and one microbatch.
[[nodiscard]] inline double step_time(const Pipeline& pipeline, PipelineTimes& scratch) {
  NoTrace none;
  return Recurrences<NoTrace>(pipeline, scratch, none).run();
}

}  // namespace trimtab::tuner::autopipe
