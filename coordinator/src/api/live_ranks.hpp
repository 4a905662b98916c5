#pragma once

// What the ranks of each job do right now, as their agents told last: for `trimtab top`. In memory only, a few
// kilobytes a rank whatever an agent says; a rank that is not heard of for a while goes. Loop thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agents/wire_messages.hpp"
#include "base/clock.hpp"
#include "schema/api/live.hpp"
#include "schema/plan.hpp"

namespace trimtab::coordinator {

class LiveRanks {
 public:
  static constexpr std::size_t kMost = 65'536;
  static constexpr Nanoseconds kForgottenAfter = std::chrono::seconds(15);

  // Of the job's own ranks: what a variant's do is nobody's question.
  void told(const wire::RankActivity& activity, const std::string& node, Nanoseconds now);
  // What was told last; nothing of a rank that is not known.
  [[nodiscard]] const api::LiveRank* find(const std::string& job, std::uint32_t rank) const;
  // An api::LiveJob. `plan`: that runs, where it is known.
  [[nodiscard]] std::string document(const std::string& job, Nanoseconds now, const Plan* plan = nullptr) const;
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
    api::LiveRank activity;  // without its age
    double step_seconds = 0;
    Nanoseconds heard{0};
  };
  using Key = std::pair<std::string, std::uint32_t>;  // job, rank
  std::map<Key, Rank> ranks_;
};

}  // namespace trimtab::coordinator
