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
  add_gauge(into, "memory_budget_bytes", "What it may take of memory before it warns, with ranks as they are.",
            budgets_.allowed_memory(ranks_run));
  add_gauge(into, "cpu_budget_cores", "The same of processor time, over a minute.", budgets_.allowed_cores(ranks_run));
  add_gauge(into, "idle_memory_budget_bytes", "What the agent may take while no rank runs.",
            budgets_.allowed_memory(false));
  add_gauge(into, "idle_cpu_budget_cores", "The same of processor time.", budgets_.allowed_cores(false));
}

// Behind the slash a link to the state is that directory.
DiskWalk::DiskWalk(const std::string& state)
    : state_(state),
      walk_(state + "/", [this](const std::string& path, const struct stat& entry) { return see(path, entry); }) {}

bool DiskWalk::see(const std::filesystem::path& path, const struct stat& entry) {
  const std::filesystem::path below = path.lexically_relative(state_);
  if (below == ".") return true;
  const auto depth = std::distance(below.begin(), below.end());  // 1 in the state itself, 3 in a job's directory
  if (S_ISDIR(entry.st_mode)) return depth > 1 || below == "jobs" || below == "removed-jobs";
  if (!S_ISREG(entry.st_mode)) return false;
  // rank-0.log, rank-0.log.previous, agent.log.1
  const bool is_log = below.filename().string().find(".log") != std::string::npos;
  Bytes& beside_logs = depth == 1 ? found_.databases : found_.scratch;
  (depth > 3 ? found_.snapshots : is_log ? found_.logs : beside_logs) += entry.st_size;
  return false;
}

void DiskUseWatch::step(Nanoseconds now) {
  if (!walk_) {
    if (ended_ && now - *ended_ < kPeriod) return;
    walk_.emplace(state_);
  }
  if (!walk_->step(kEntriesAtOnce)) return;
  latest_ = walk_->found();
  walk_.reset();
  ended_ = now;
  judge();
}

void DiskUseWatch::judge() {
  const bool over = latest_->own() > budget_;
  if (std::exchange(over_, over) == over) return;
  if (!over) return warn_("the agent is within its budget of disk again");
  warn_("the agent takes " + format_bytes(latest_->own()) + " of disk (databases " + format_bytes(latest_->databases) +
        ", logs " + format_bytes(latest_->logs) + ", scratch of jobs " + format_bytes(latest_->scratch) +
        "), and may take " + format_bytes(budget_) +
        ": bring the coordinator back where costs wait for it (databases that have grown do not shrink by that), "
        "shorten job_retention, lower rank_log_limit, or raise disk_budget");
}

void DiskUseWatch::append_metrics(std::vector<net::Metric>& into) const {
  const auto part = [&into](const char* what, Bytes bytes) {
    add_gauge(into, "disk_bytes", "What stands in the agent's state directory, at the last look.", bytes,
              net::labels({{"what", what}}));
  };
  if (latest_) {
    part("databases", latest_->databases);
    part("logs", latest_->logs);
    part("scratch", latest_->scratch);
    part("snapshots", latest_->snapshots);
  }
  add_gauge(into, "disk_budget_bytes", "What databases, logs and scratch of those may take before the agent warns.",
            budget_);
}

}  // namespace trimtab::agent
