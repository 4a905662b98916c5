#pragma once

// What the ranks of each job do right now, as their agents told last: for `trimtab top`. In memory only, a few
// kilobytes a rank whatever an agent says; a rank that is not heard of for a while goes. Loop thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace trimtab::wire {
class RankActivity;
}  // namespace trimtab::wire

namespace trimtab::coordinator {

// What is kept of one message. Numbers that are none are 0.
struct LiveRank {
  struct Stream {
    std::uint32_t stream = 0;
    double computation = 0;
    double communication = 0;
    double copy = 0;
  };
  struct Kernel {
    std::string name;
    std::string kernel_class;
    bool collective = false;
    double share = 0;
    std::uint64_t count = 0;
    double mean_us = 0;
  };
  bool on_device = false;
  std::uint64_t steps = 0;
  std::int64_t step = -1;  // the latest number; -1 = not said
  bool detected = false;   // steps were found by their period, not by ranges
  double confidence = 0;
  std::uint64_t kernels_per_step = 0;
  std::uint64_t steps_measured = 0;
  std::uint64_t steps_left_out = 0;
  std::uint64_t windows = 0;
  double step_seconds = 0;
  double computation = 0;  // shares of a step
  double exposed_communication = 0;
  double exposed_copy = 0;
  double idle = 0;
  double overlapped_communication = 0;
  std::vector<Stream> streams;
  std::vector<Kernel> busiest;
};

class LiveRanks {
 public:
  static constexpr std::size_t kMost = 65'536;
  static constexpr Nanoseconds kForgottenAfter = std::chrono::seconds(15);

  // Of the job's own ranks: what a variant's do is nobody's question.
  void told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now);
  // {"job", "ranks": [...]}, by number.
  [[nodiscard]] std::string document(const std::string& job, Nanoseconds now) const;
  // What a rank computed in a step, the mean over its latest ones.
  struct Computing {
    std::int32_t rank = 0;
    std::string node;
    double ms = 0;
    std::int64_t first_step = 0;  // of those
  };
  // Of those whose steps are told by number.
  [[nodiscard]] std::vector<Computing> computing(const std::string& job) const;
  void forget_old(Nanoseconds now);

 private:
  struct Rank {
    LiveRank activity;
    std::string node;
    Nanoseconds heard{0};
  };
  using Key = std::pair<std::string, std::uint32_t>;  // job, rank
  std::map<Key, Rank> ranks_;
};

}  // namespace trimtab::coordinator
