#pragma once

// What the agent takes of its machine's memory and processors, beside what it may: little while no rank runs, more
// while some do, whose records it reads. Judged once a minute; warned of once when it is over and once when it is not
// any more; nothing is refused for it. Loop thread only.

#include "base/units.hpp"
#include "commands/tree_walk.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

struct OwnUse {
  Bytes memory = 0;
  Nanoseconds cpu_time{0};  // since the process began
};

// What it may take. Nothing: kIdle..., or kBusy... in a minute in which a rank ran.
struct OwnBudgets {
  static constexpr Bytes kIdleMemory = Bytes{64} << 20;  // scripts/soak measures what it takes of these
  static constexpr double kIdleCores = 0.01;
  static constexpr Bytes kBusyMemory = Bytes{1} << 30;  // ring_memory is 256 MiB, and a rank with kernels takes some 25
  static constexpr double kBusyCores = 1;

  std::optional<Bytes> memory;
  std::optional<double> cores;

  [[nodiscard]] Bytes allowed_memory(bool ranks_run) const {
    return memory.value_or(ranks_run ? kBusyMemory : kIdleMemory);
  }
  [[nodiscard]] double allowed_cores(bool ranks_run) const {
    return cores.value_or(ranks_run ? kBusyCores : kIdleCores);
  }
};

class OwnUseWatch {
 public:
  static constexpr Nanoseconds kWindow = std::chrono::minutes(1);

  // `measure` says nothing where it cannot. `warn` takes a line for the log.
  OwnUseWatch(OwnBudgets budgets, std::function<std::optional<OwnUse>()> measure,
              std::function<void(const std::string&)> warn)
      : budgets_(budgets), measure_(std::move(measure)), warn_(std::move(warn)) {}

  // To be called about once a second. `now` is monotonic.
  void step(Nanoseconds now, bool ranks_run);
  // Of the last whole minute; as long as that has not ended, of none.
  [[nodiscard]] bool over_memory() const { return over_memory_; }
  [[nodiscard]] bool over_cpu() const { return over_cpu_; }
  void append_metrics(std::vector<net::Metric>& into, bool ranks_run) const;

 private:
  void begin(Nanoseconds now);
  void judge(const OwnUse& use, double cores);
  void tell(bool& over, bool is_over, const std::string& what, const std::string& found, const std::string& remedy);

  OwnBudgets budgets_;
  std::function<std::optional<OwnUse>()> measure_;
  std::function<void(const std::string&)> warn_;
  std::optional<OwnUse> first_;  // of this minute
  Nanoseconds begun_{0};
  bool busy_ = false;  // a rank ran in it
  bool over_memory_ = false;
  bool over_cpu_ = false;
};

// What the agent takes of its disk, beside what it may. A walk through the state directory looks at a few entries at a
// time and is made anew a while after it has ended, however much there is. Warned of once when it is over and once when
// it is not any more; nothing is refused for it. Loop thread only.

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
  DiskWalk(const DiskWalk&) = delete;
  DiskWalk& operator=(const DiskWalk&) = delete;

  // Looks at so many entries at most; true at the end.
  [[nodiscard]] bool step(std::size_t entries) { return walk_.step(entries); }
  [[nodiscard]] const DiskUse& found() const { return found_; }

 private:
  bool see(const std::filesystem::path& path, const struct stat& entry);

  std::string state_;
  DiskUse found_;
  TreeWalk walk_;
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
