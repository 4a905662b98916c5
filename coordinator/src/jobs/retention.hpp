#pragma once

// Forgets what is over for long: runs with all that belongs to them, entries of the audit log, and batch by batch what
// idle origins of costs have sent, which becomes one sum (IdleOrigins). Thins the steps of runs as they age
// (state_store.hpp, kStepsKept). A slice of a bounded size at each tick, so
// that the event loop goes on; a slice is a transaction of its own, and what is interrupted goes on at the next start.
// The database gives the room to what comes next. Nothing is lost while the wall clock cannot be trusted
// (base/clock_agreement.hpp). Event loop's thread only.

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock_agreement.hpp"
#include "jobs/job_table.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::coordinator {

// Folds what origins have left behind that send no more, such as agents whose state is gone: their last batches would
// stay one by one for ever (schema/README.md), and who reads costs reads each of them. An origin is idle when nothing
// came for kIdle, as seen from here; what it sends later counts as ever, and other coordinators may fold the same. A
// slice of a bounded size at a time; memory grows with the origins that have batches that are not folded. Event loop's
// thread only.
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

class Retention {
 public:
  Retention(const JobNeeds& services, JobTable& jobs)
      : services_(services),
        jobs_(jobs),
        clocks_(services.clock.monotonic(), services.clock.wall()),
        idle_origins_(services.costs, services.clock) {}

  // A slice, where something is due; after a look that found nothing the next one is kPeriod later.
  void tick();

  static constexpr Nanoseconds kPeriod = std::chrono::seconds(10);
  // Removing entries of the audit log is an entry, which goes in its turn: so many times at most in its retention.
  static constexpr int kAuditRemovals = 20;
  static constexpr std::int64_t kRunRows = 500;
  static constexpr std::int64_t kAuditRows = 2000;
  // Runs whose steps are looked at in a slice, until one has steps to thin.
  static constexpr int kRunsAtOnce = 16;

 private:
  // True when there may be more.
  [[nodiscard]] bool forget_some();
  [[nodiscard]] Result<bool> forget_of_runs(std::int64_t now_ns);
  [[nodiscard]] Result<bool> forget_of_run(std::int64_t run);
  [[nodiscard]] Result<bool> forget_of_audit(std::int64_t now_ns);
  [[nodiscard]] Result<bool> fold_costs();
  [[nodiscard]] Result<bool> thin_steps();
  // False for what is kept for ever.
  [[nodiscard]] bool may_go(Nanoseconds limit) const;

  const JobNeeds& services_;
  JobTable& jobs_;
  ClockAgreement clocks_;
  IdleOrigins idle_origins_;
  Nanoseconds next_look_{0};
  Nanoseconds next_audit_{0};
  std::set<std::int64_t> unreadable_;  // runs that stay
  std::vector<std::int64_t> to_thin_;  // in this round
  std::set<std::int64_t> thin_;        // that are over, and have no steps to thin any more
};

}  // namespace trimtab::coordinator
