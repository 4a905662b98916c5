#pragma once

// What the ranks of each job do right now, as their agents told last: for `trimtab top`. In memory only; a rank that is
// not heard of for a while goes. Loop thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

class LiveRanks {
 public:
  static constexpr std::size_t kMost = 65'536;
  static constexpr Nanoseconds kForgottenAfter = std::chrono::seconds(15);

  void told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now);
  // {"job", "ranks": [...]}: the job's own ranks (no variant's), by number.
  [[nodiscard]] std::string document(const std::string& job, Nanoseconds now) const;
  // What a rank computed in a step, the mean over its latest ones.
  struct Computing {
    std::int32_t rank = 0;
    std::string node;
    double ms = 0;
    std::int64_t first_step = 0;  // of those
  };
  // The job's own ranks whose steps are told by number.
  [[nodiscard]] std::vector<Computing> computing(const std::string& job) const;
  void forget_old(Nanoseconds now);

 private:
  struct Rank {
    wire::RankActivity activity;
    std::string node;
    Nanoseconds heard{0};
  };
  using Key = std::pair<std::string, std::pair<std::string, std::uint32_t>>;  // job, variant, rank
  std::map<Key, Rank> ranks_;
};

}  // namespace trimtab::coordinator
