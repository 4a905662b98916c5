#pragma once

// What the agent takes of its disk, beside what it may. A walk through the state directory looks at a few entries at a
// time and is made anew a while after it has ended, however much there is. Warned of once when it is over and once when
// it is not any more; nothing is refused for it. Loop thread only.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/units.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

// Sizes of regular files in the state directory itself, in jobs/ and in removed-jobs/. Links are not followed.
struct DiskUse {
  Bytes databases = 0;  // agent.db with the spool, costs.db, their logs and copies, and what else stands beside them
  Bytes logs = 0;       // of ranks, and the agent's own where it is in its state
  Bytes scratch = 0;    // what else stands in jobs' directories: plans, models, tables
  Bytes snapshots = 0;  // in directories there: snapshots and copies of checkpoints, whose size the job decides

  // What counts against the budget.
  [[nodiscard]] Bytes own() const { return databases + logs + scratch; }
};

// One walk. Files that come and go meanwhile are counted or not.
class DiskWalk {
 public:
  explicit DiskWalk(const std::string& state);
  // Looks at so many entries at most; true at the end.
  [[nodiscard]] bool step(std::size_t entries);
  [[nodiscard]] const DiskUse& found() const { return found_; }

 private:
  enum class Place { kState, kJobs, kJob, kBelow };
  struct Directory {
    std::string path;
    Place place;
  };
  [[nodiscard]] bool enter_next();
  void look(const std::filesystem::path& path);
  void look_at_directory(const std::filesystem::path& path);
  [[nodiscard]] Bytes& sum_of(const std::string& name);

  std::vector<Directory> to_visit_;
  std::filesystem::directory_iterator entry_;
  Place place_ = Place::kState;
  DiskUse found_;
};

class DiskUseWatch {
 public:
  static constexpr std::size_t kEntriesAtOnce = 256;
  static constexpr Nanoseconds kPeriod = std::chrono::minutes(1);  // from a walk's end to the next

  // `warn` takes a line for the log.
  DiskUseWatch(std::string state, Bytes budget, std::function<void(const std::string&)> warn)
      : state_(std::move(state)), budget_(budget), warn_(std::move(warn)) {}

  // To be called about once a second. `now` is monotonic.
  void step(Nanoseconds now);
  // Of the last whole walk.
  [[nodiscard]] const std::optional<DiskUse>& latest() const { return latest_; }
  [[nodiscard]] bool over() const { return over_; }
  void append_metrics(std::vector<net::Metric>& into) const;

 private:
  void judge();

  std::string state_;
  Bytes budget_;
  std::function<void(const std::string&)> warn_;
  std::optional<DiskWalk> walk_;
  std::optional<Nanoseconds> ended_;  // the last walk
  std::optional<DiskUse> latest_;
  bool over_ = false;
};

}  // namespace trimtab::agent
