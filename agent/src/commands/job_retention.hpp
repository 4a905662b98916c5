#pragma once

// Removes what jobs have left behind on this node: directories of jobs that the coordinator says are over, none of
// whose files has changed for a time and of which no rank runs or is awaited here. Nothing goes while no coordinator
// says which jobs are not over: what a job that waits or was halted goes on from is kept; nor while the wall clock
// cannot be trusted (base/clock_agreement.hpp). Files are looked at, and go, a few at a time, so that the event loop
// goes on. A directory is first moved aside, whole; what an agent that died had moved aside its successor removes. What
// cannot be moved or removed is said once and tried again later; nothing waits behind it. Loop thread only.
//
// A job's directory says whose it is. What another tenant's job of the name left is moved aside before one begins.

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "base/clock_agreement.hpp"
#include "base/result.hpp"
#include "commands/tree_walk.hpp"

namespace trimtab::agent {

class JobRetention {
 public:
  struct Surroundings {
    std::string state;
    Nanoseconds kept_for{0};  // since the last change; 0 = for ever
    std::function<bool(const std::string& job)> is_active;
    // Called before the job's directories are moved; on an error they stay, and it is tried again.
    std::function<Status(const std::string& job)> forget;
  };
  static constexpr std::size_t kFilesAtOnce = 32;       // that are removed
  static constexpr std::size_t kEntriesLookedAt = 256;  // at once

  // `now` is monotonic, `wall` the time that files' dates count in; here and below.
  JobRetention(Surroundings surroundings, Nanoseconds now, Nanoseconds wall)
      : surroundings_(std::move(surroundings)), clocks_(now, wall) {}

  // What the coordinator says now: the jobs that are not over; nothing where it does not say all of them, or is away.
  void told(std::optional<std::set<std::string>> unfinished) { unfinished_ = std::move(unfinished); }

  // To be called about once a second: a few files of what was moved aside go, and a few of the jobs' are looked at,
  // of as many jobs as have few, where it is time for that.
  void step(Nanoseconds now, Nanoseconds wall);
  // The job's directories are this tenant's: to be called before they are used. What an earlier release left, which
  // does not say whose it is, is taken for the tenant's own. Fails while another tenant's ranks run in them, or where
  // they cannot be moved or written.
  [[nodiscard]] Status give_to(const std::string& tenant, const std::string& job, Nanoseconds wall);
  [[nodiscard]] std::uint64_t removed() const { return removed_; }  // jobs, since the start

 private:
  // Whether all of a job's files are old: it is looked at from its first directory to its last.
  struct Look {
    std::string job;
    std::vector<std::string> directories;
    std::size_t next = 0;  // of the directories
    Nanoseconds begun{0};  // on the wall clock
    std::int64_t latest = 0;
    std::optional<TreeWalk> walk;
  };
  [[nodiscard]] bool trusts_clocks(Nanoseconds now, Nanoseconds wall);
  void remove_some(Nanoseconds now);
  void list_aside();
  void look_on(Nanoseconds now, Nanoseconds wall);
  void list_jobs();
  [[nodiscard]] bool is_kept(const std::string& job) const;
  [[nodiscard]] std::size_t look_on(Look& current, std::size_t entries);
  [[nodiscard]] std::pair<std::size_t, bool> look_at_some(Look& look, std::size_t entries) const;
  // False: it stays, and so would others now.
  [[nodiscard]] bool move_aside(const Look& look);
  [[nodiscard]] bool move_aside(const std::string& directory, Nanoseconds wall);
  [[nodiscard]] Status make_ready(const std::string& job) const;  // what `aside` needs first
  [[nodiscard]] Status take_away(const std::string& job, Nanoseconds wall);
  void say_once(const std::string& path, const std::string& failure);

  Surroundings surroundings_;
  ClockAgreement clocks_;
  std::optional<std::set<std::string>> unfinished_;
  Nanoseconds next_look_{0};
  std::map<std::string, std::vector<std::string>> to_look_at_;  // jobs and their directories
  std::unique_ptr<Look> look_;
  Nanoseconds next_removal_{0};  // of all that stands aside
  std::vector<std::string> to_remove_;
  std::string removed_path_;
  std::optional<TreeRemoval> removal_;
  std::set<std::string> said_;  // what could not be moved or removed
  std::uint64_t removed_ = 0;
};

}  // namespace trimtab::agent
