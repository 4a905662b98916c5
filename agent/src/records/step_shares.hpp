#pragma once

// How a step's time is shared between computation, communication that nothing hides, copies and idleness: a sweep over
// the intervals of all streams of one rank, in order. At every moment the device counts as computing when any stream
// computes, else as communicating, else as copying, else as idle; so the four add up to the step. Constant memory.
// Pure.

#include "kernels/device_interval.hpp"

namespace trimtab::agent {

struct StreamShares {
  std::uint32_t stream = 0;
  std::uint64_t computation_ns = 0;
  std::uint64_t communication_ns = 0;
  std::uint64_t copy_ns = 0;
};

struct StepShares {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t computation_ns = 0;
  std::uint64_t exposed_communication_ns = 0;     // nothing computes meanwhile
  std::uint64_t overlapped_communication_ns = 0;  // within computation_ns
  std::uint64_t exposed_copy_ns = 0;              // nothing computes or communicates meanwhile
  std::uint64_t overlapped_copy_ns = 0;
  std::uint64_t idle_ns = 0;
  std::vector<StreamShares> streams;  // those that did something; at most StepSweep::kMostStreams
};

class StepSweep final {
 public:
  static constexpr std::size_t kMostStreams = 64;

  // A step begins; intervals that still run reach into it.
  void begin(std::uint64_t begin_ns) { (void)end(std::max(begin_ns, now_ns_)); }
  // In order of beginnings. What began before the step counts from its beginning on.
  void add(const DeviceInterval& interval);
  // The step that ends here; the next begins. Intervals that reach beyond are cut.
  [[nodiscard]] StepShares end(std::uint64_t end_ns);
  // How far the sweep has come.
  [[nodiscard]] std::uint64_t now_ns() const { return now_ns_; }
  // Of streams beyond kMostStreams, whose time is only in the sums.
  [[nodiscard]] std::uint64_t streams_left_out() const { return left_out_; }

 private:
  static constexpr std::size_t kActivities = 3;
  using Until = std::array<std::uint64_t, kActivities>;  // by Activity: busy up to here
  struct Stream {
    std::uint32_t number = 0;
    Until until{};
    Until busy{};
  };
  void advance(std::uint64_t now_ns);
  [[nodiscard]] Stream* stream_of(std::uint32_t number);

  std::uint64_t begin_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  Until until_{};
  std::array<std::uint64_t, 8> by_mask_{};  // time by the set of activities that ran
  std::vector<Stream> streams_;
  std::uint64_t left_out_ = 0;
};

}  // namespace trimtab::agent
