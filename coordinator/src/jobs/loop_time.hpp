#pragma once

// What jobs and their nodes take of the event loop's time, by tenant. What a tenant's events have taken is its debt,
// which shrinks by half of the time that passes. One that owes more than a moment waits with what its jobs do next, and
// its nodes' messages wait where they are, so that the loop has time for others. People's orders do not wait, only what
// they make jobs do: how many there may be is bounded (api/access.hpp). Pure. One owner thread.

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
    return wait(tenant, now).count() == 0;
  }
  // Until it may.
  [[nodiscard]] Nanoseconds wait(const std::string& tenant, Nanoseconds now) const {
    const auto paid = paid_at_.find(tenant);
    if (!limited_ || paid == paid_at_.end()) return Nanoseconds(0);
    return std::max(Nanoseconds(0), paid->second - now - kShare * kOwedAtMost);
  }
  void charge(const std::string& tenant, Nanoseconds from, Nanoseconds to) {
    if (!limited_ || to <= from) return;
    charged_ += to - from;
    Nanoseconds& paid = paid_at_[tenant];
    paid = std::max(paid, from) + kShare * (to - from);
  }
  // Of a stretch within which others charge theirs: the rest. `before`: what charged() was at its begin.
  void charge_rest(const std::string& tenant, Nanoseconds from, Nanoseconds to, Nanoseconds before) {
    charge(tenant, from, to - (charged_ - before));
  }
  [[nodiscard]] Nanoseconds charged() const { return charged_; }  // to all

 private:
  bool limited_ = false;
  Nanoseconds charged_{0};
  std::map<std::string, Nanoseconds> paid_at_;  // when nothing is owed any more
};

}  // namespace trimtab::coordinator
