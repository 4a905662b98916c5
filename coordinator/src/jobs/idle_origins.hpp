#pragma once

// Folds what origins have left behind that send no more, such as agents whose state is gone: their last batches would
// stay one by one for ever (schema/README.md), and who reads costs reads each of them. An origin is idle when nothing
// came for kIdle, as seen from here; what it sends later counts as ever, and other coordinators may fold the same. A
// slice of a bounded size at a time; memory grows with the origins that have batches that are not folded. Event loop's
// thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::coordinator {

class IdleOrigins {
 public:
  static constexpr Nanoseconds kIdle = std::chrono::hours(1);
  // From the end of one round through the database to the next.
  static constexpr Nanoseconds kPause = std::chrono::minutes(10);
  static constexpr std::size_t kOriginsAtOnce = 64;

  // Both must outlive it.
  IdleOrigins(CostDatabase& costs, const Clock& clock) : costs_(costs), clock_(clock) {}

  // A slice; true when there is more to do now. After a failure the next call goes on where this one was.
  [[nodiscard]] Result<bool> fold_some();

 private:
  struct Seen {
    std::uint64_t last = 0;  // its highest number
    Nanoseconds since{0};    // when that was first seen
  };
  Result<bool> look();
  Result<bool> fold_due();
  Result<bool> set_apart(const Error& reason);
  [[nodiscard]] bool is_idle(const UnfoldedOrigin& origin);

  CostDatabase& costs_;
  const Clock& clock_;
  Nanoseconds next_round_{0};
  std::int64_t looked_until_ = 0;       // an origin's id, within a round
  std::map<std::int64_t, Seen> seen_;   // by id; in the last round
  std::map<std::int64_t, Seen> round_;  // in this one
  std::vector<std::string> due_;
  bool one_by_one_ = false;           // one of those due cannot be read
  std::set<std::string> unreadable_;  // they stay
};

}  // namespace trimtab::coordinator
