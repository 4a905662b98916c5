#pragma once

// What the coordinator itself takes of its machine, beside what it may: measured on each tick, told in metrics, and
// warned of once when it is over and once when it is not any more. Who stores measured costs asks first whether there
// is room (check_room_for_costs()); nothing else is refused for it. Event loop's thread only.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "coordinator/settings.hpp"

namespace trimtab::coordinator {

struct OwnUse {
  double memory_bytes = 0;
  double cpu_seconds = 0;  // since the process began
  double disk_bytes = 0;   // of databases that are files, with their logs
  double cost_bytes = 0;   // of the cost database, where it is a file, without what is free in it
};

// Of this process; `databases` are names of databases. Without `cost_bytes`.
[[nodiscard]] OwnUse measure_own_use(const std::vector<std::string>& databases);

class OwnUseWatch {
 public:
  static constexpr Nanoseconds kPeriod = std::chrono::seconds(10);
  static constexpr Nanoseconds kCpuWindow = std::chrono::minutes(1);

  // `warn` takes a line for the log.
  OwnUseWatch(const Budgets& budgets, const Clock& clock, std::function<OwnUse()> measure,
              std::function<void(const std::string&)> warn)
      : budgets_(budgets), clock_(clock), measure_(std::move(measure)), warn_(std::move(warn)) {}

  // Looks where the last look is a period ago.
  void tick();
  [[nodiscard]] const Budgets& budgets() const { return budgets_; }
  [[nodiscard]] const OwnUse& latest() const { return latest_; }
  // An error while the cost database takes more than it may.
  [[nodiscard]] Status check_room_for_costs() const;
  // Over the last whole window; 0 before the first has ended.
  [[nodiscard]] double cpu_cores() const { return cpu_cores_; }
  // By "memory", "cpu", "disk" and "costs": whether it takes more than it may.
  [[nodiscard]] const std::map<std::string, bool>& over() const { return over_; }

 private:
  void judge(const std::string& what, bool over, const std::string& taken, const std::string& allowed,
             const std::string& remedy);

  Budgets budgets_;
  const Clock& clock_;
  std::function<OwnUse()> measure_;
  std::function<void(const std::string&)> warn_;
  std::optional<Nanoseconds> looked_;
  Nanoseconds window_begin_{0};
  double window_cpu_seconds_ = 0;
  OwnUse latest_;
  double cpu_cores_ = 0;
  std::map<std::string, bool> over_ = {{"memory", false}, {"cpu", false}, {"disk", false}, {"costs", false}};
};

}  // namespace trimtab::coordinator
