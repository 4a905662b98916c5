#pragma once

// Removes what jobs have left behind on this node: directories of jobs that the coordinator says are over, none of
// whose files has changed for a time and of which no rank runs or is awaited here. Nothing goes while no coordinator
// says which jobs are not over: what a job that waits or was halted goes on from is kept; nor while the wall clock
// cannot be trusted (base/clock_agreement.hpp). A directory is first moved aside, whole, then its files go a few at a
// time, so that the event loop goes on; what an agent that died had moved aside its successor removes. Loop thread
// only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock_agreement.hpp"
#include "base/result.hpp"

namespace trimtab::agent {

class JobRetention {
 public:
  struct Parts {
    std::string state;
    Nanoseconds kept_for{0};  // since the last change; 0 = for ever
    std::function<bool(const std::string& job)> is_active;
    // Called before the job's directories are moved; on an error they stay, and it is tried again.
    std::function<Status(const std::string& job)> forget;
  };
  static constexpr std::size_t kFilesAtOnce = 32;

  // `now` is monotonic, `wall` the time that files' dates count in; here and below.
  JobRetention(Parts parts, Nanoseconds now, Nanoseconds wall) : parts_(std::move(parts)), clocks_(now, wall) {}

  // What the coordinator says now: the jobs that are not over; nothing where it does not say all of them, or is away.
  void told(std::optional<std::set<std::string>> unfinished);

  // A few files of what was moved aside; else the next job that is due; else, where it is time for that, a look at
  // which are.
  void step(Nanoseconds now, Nanoseconds wall);
  [[nodiscard]] std::uint64_t removed() const { return removed_; }  // jobs, since the start

 private:
  [[nodiscard]] bool trusts_clocks(Nanoseconds now, Nanoseconds wall);
  [[nodiscard]] bool remove_some();
  void look(Nanoseconds wall);
  [[nodiscard]] bool is_over(const std::string& job, const std::vector<std::string>& directories,
                             Nanoseconds wall) const;
  void take_next(Nanoseconds wall);
  // False: it stays, and so would others now.
  [[nodiscard]] bool move_aside(const std::string& job, const std::vector<std::string>& directories);

  Parts parts_;
  ClockAgreement clocks_;
  std::optional<std::set<std::string>> unfinished_;
  Nanoseconds next_look_{0};
  std::vector<std::pair<std::string, std::vector<std::string>>> due_;  // jobs and their directories
  std::string last_failure_;                                           // of removing; said once
  std::uint64_t removed_ = 0;
};

}  // namespace trimtab::agent
