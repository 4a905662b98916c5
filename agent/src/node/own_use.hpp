#pragma once

// What the agent takes of its machine's memory and processors, beside what it may: little while no rank runs, more
// while some do, whose records it reads. Judged once a minute; warned of once when it is over and once when it is not
// any more; nothing is refused for it. Loop thread only.

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/units.hpp"
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

}  // namespace trimtab::agent
