#pragma once

// Forgets what is over for long: runs with all that belongs to them, entries of the audit log, and batch by batch what
// idle origins of costs have sent, which becomes one sum (idle_origins.hpp). A slice of a bounded size at each tick, so
// that the event loop goes on; a slice is a transaction of its own, and what is interrupted goes on at the next start.
// The database gives the room to what comes next. Nothing is lost while the wall clock cannot be trusted
// (base/clock_agreement.hpp). Event loop's thread only.

#include <cstdint>
#include <set>

#include "base/clock_agreement.hpp"
#include "jobs/idle_origins.hpp"
#include "jobs/job_table.hpp"
#include "services.hpp"

namespace trimtab::coordinator {

class Retention {
 public:
  // 0 = for ever.
  struct Limits {
    Nanoseconds jobs{0};   // since the end of a run
    Nanoseconds audit{0};  // since an entry was written
  };

  Retention(Services& services, JobTable& jobs, Limits limits)
      : services_(services),
        jobs_(jobs),
        limits_(limits),
        clocks_(services.clock.monotonic(), services.clock.wall()),
        idle_origins_(services.costs, services.clock) {}

  // A slice, where something is due; after a look that found nothing the next one is kPeriod later.
  void tick();

  static constexpr Nanoseconds kPeriod = std::chrono::seconds(10);
  // Removing entries of the audit log is an entry, which goes in its turn: so many times at most in its retention.
  static constexpr int kAuditRemovals = 20;
  static constexpr std::int64_t kRunRows = 500;
  static constexpr std::int64_t kAuditRows = 2000;

 private:
  // True when there may be more.
  [[nodiscard]] bool forget_some();
  [[nodiscard]] Result<bool> forget_of_runs(std::int64_t now_ns);
  [[nodiscard]] Result<bool> forget_of_audit(std::int64_t now_ns);
  [[nodiscard]] Result<bool> fold_costs();
  // False for what is kept for ever.
  [[nodiscard]] bool may_go(Nanoseconds limit) const;

  Services& services_;
  JobTable& jobs_;
  const Limits limits_;
  ClockAgreement clocks_;
  IdleOrigins idle_origins_;
  Nanoseconds next_look_{0};
  Nanoseconds next_audit_{0};
  std::set<std::int64_t> unreadable_;  // runs that stay
};

}  // namespace trimtab::coordinator
