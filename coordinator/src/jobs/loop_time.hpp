#pragma once

// What jobs take of the event loop's time, by tenant. What a tenant's events have taken is its debt, which shrinks by
// half of the time that passes. One that owes more than a moment waits with what its jobs do next, so that the loop has
// time for others. People's orders do not wait, only what they make jobs do: how many there may be is bounded
// (api/access.hpp). Pure. One owner thread.

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "base/clock.hpp"

namespace trimtab::coordinator {

class LoopTime {
 public:
  static constexpr int kShare = 2;  // one part in so many is a tenant's
  static constexpr Nanoseconds kOwedAtMost = std::chrono::milliseconds(100);

  // Where all are one tenant's there is nobody to wait for.
  void limit(bool several_tenants) { limited_ = several_tenants; }

  // All times are monotonic.
  [[nodiscard]] bool may_go_on(const std::string& tenant, Nanoseconds now) const {
    const auto paid = paid_at_.find(tenant);
    return !limited_ || paid == paid_at_.end() || paid->second - now <= kShare * kOwedAtMost;
  }
  void charge(const std::string& tenant, Nanoseconds from, Nanoseconds to) {
    if (!limited_ || to <= from) return;
    Nanoseconds& paid = paid_at_[tenant];
    paid = std::max(paid, from) + kShare * (to - from);
  }

 private:
  bool limited_ = false;
  std::map<std::string, Nanoseconds> paid_at_;  // when nothing is owed any more
};

}  // namespace trimtab::coordinator
