#include "node/own_use.hpp"

#include "base/numbers.hpp"
#include "node/agent_metric.hpp"

namespace trimtab::agent {

void OwnUseWatch::step(Nanoseconds now, bool ranks_run) {
  if (!first_) begin(now);
  busy_ = busy_ || ranks_run;
  if (!first_ || now - begun_ < kWindow) return;
  if (const auto use = measure_()) {
    const auto used = std::chrono::duration<double>(use->cpu_time - first_->cpu_time);
    judge(*use, used / std::chrono::duration<double>(now - begun_));
  }
  begin(now);
  busy_ = ranks_run;
}

void OwnUseWatch::begin(Nanoseconds now) {
  first_ = measure_();
  begun_ = now;
}

void OwnUseWatch::judge(const OwnUse& use, double cores) {
  const std::string when = busy_ ? "" : " while no rank runs";
  const Bytes memory = budgets_.allowed_memory(busy_);
  tell(over_memory_, use.memory > memory, "memory",
       format_bytes(use.memory) + " of memory" + when + ", and may take " + format_bytes(memory),
       "bring the coordinator back where costs wait for it, lower ring_memory, or raise memory_budget");
  const double allowed = budgets_.allowed_cores(busy_);
  tell(over_cpu_, cores > allowed, "processor time",
       format_percent(cores) + " of a core" + when + ", and may take " + format_percent(allowed),
       "lengthen sample_period, lower max_message_rate, or raise cpu_budget");
}

void OwnUseWatch::tell(bool& over, bool is_over, const std::string& what, const std::string& found,
                       const std::string& remedy) {
  if (std::exchange(over, is_over) == is_over) return;
  if (!is_over) return warn_("the agent is within its budget of " + what + " again");
  warn_("the agent takes " + found + ": " + remedy);
}

void OwnUseWatch::append_metrics(std::vector<net::Metric>& into, bool ranks_run) const {
  into.push_back(gauge("memory_budget_bytes", "What it may take of memory before it warns, with ranks as they are.",
                       static_cast<double>(budgets_.allowed_memory(ranks_run))));
  into.push_back(
      gauge("cpu_budget_cores", "The same of processor time, over a minute.", budgets_.allowed_cores(ranks_run)));
  into.push_back(gauge("idle_memory_budget_bytes", "What the agent may take while no rank runs.",
                       static_cast<double>(budgets_.allowed_memory(false))));
  into.push_back(gauge("idle_cpu_budget_cores", "The same of processor time.", budgets_.allowed_cores(false)));
}

}  // namespace trimtab::agent
