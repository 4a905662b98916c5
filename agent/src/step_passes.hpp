#pragma once

// What one rank spent in its operators' passes in each of an epoch's first warm steps: what its stage of the plan
// really costs, without waiting for other stages. On a host the ranges themselves; on a device the kernels that they
// launched. A step with passes that overlap others, or of which some are lost, is left out. Pure; memory is bounded.
// Single-threaded.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ring_reader.hpp"

namespace trimtab::agent {

struct TimedStep {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  std::uint64_t busy_ns = 0;
};

class StepPasses final {
 public:
  // Steps of an epoch that are timed: from the fourth, when warm-up is over, and so many.
  static constexpr int kFirst = 4;
  static constexpr int kSteps = 16;

  // The epoch that runs before any `switch` range is seen.
  void begin_epoch(std::uint64_t epoch);
  void add(const RangeRecord& record);
  // The kernels of a pass that was added, whole.
  void add_device_time(const RangeRecord& pass, std::uint64_t device_ns);
  // Ranges measure the host only, from the first step on.
  void on_device() { on_device_ = true; }
  // Timed since the last call.
  [[nodiscard]] std::vector<TimedStep> take();

 private:
  struct Step {
    TimedStep timed;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::size_t passes = 0;
    std::size_t device_passes = 0;
    std::uint64_t device_ns = 0;
  };
  struct Pass {
    std::uint64_t begin_ns = 0;
    std::uint64_t duration_ns = 0;
  };
  static constexpr std::size_t kMostWaiting = 64;  // steps, for their kernels
  static constexpr std::size_t kMostPasses = 1 << 16;

  void end_step(const RangeRecord& step);

  std::uint64_t epoch_ = 0;
  int steps_ = 0;  // of this epoch
  bool on_device_ = false;
  bool overlapped_ = false;  // some pass since the last step
  std::vector<Pass> passes_;
  std::deque<Step> waiting_;
  std::vector<TimedStep> done_;
};

}  // namespace trimtab::agent
