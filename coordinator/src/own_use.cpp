#include "own_use.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "schema/database.hpp"

namespace trimtab::coordinator {

namespace {

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::string bytes_text(double bytes) {
  return format_bytes(static_cast<Bytes>(bytes));
}

std::string cores_text(double cores) {
  return format_number(cores) + " cores";
}

}  // namespace

OwnUse measure_own_use(const std::vector<std::string>& databases) {
  OwnUse use{resident_bytes(), cpu_seconds(), 0, 0};
  for (const std::string& name : databases) use.disk_bytes += static_cast<double>(bytes_on_disk(name).value_or(0));
  return use;
}

void OwnUseWatch::tick() {
  const Nanoseconds now = clock_.monotonic();
  if (looked_ && now - *looked_ < kPeriod) return;
  latest_ = measure_();
  if (!looked_) {
    window_begin_ = now;
    window_cpu_seconds_ = latest_.cpu_seconds;
  }
  looked_ = now;
  judge("memory", latest_.memory_bytes > static_cast<double>(budgets_.memory), bytes_text(latest_.memory_bytes),
        format_bytes(budgets_.memory), "shorten job_retention, lower max_jobs, or raise memory_budget");
  judge("disk", latest_.disk_bytes > static_cast<double>(budgets_.disk), bytes_text(latest_.disk_bytes),
        format_bytes(budgets_.disk), "shorten job_retention or audit_retention, or raise disk_budget");
  judge("costs", latest_.cost_bytes > static_cast<double>(budgets_.costs), bytes_text(latest_.cost_bytes),
        format_bytes(budgets_.costs),
        "agents keep theirs meanwhile; see which node sends so many, or raise costs_limit");
  if (now - window_begin_ < kCpuWindow) return;
  const double window = std::chrono::duration<double>(now - window_begin_).count();
  cpu_cores_ = (latest_.cpu_seconds - window_cpu_seconds_) / window;
  window_begin_ = now;
  window_cpu_seconds_ = latest_.cpu_seconds;
  judge("cpu", cpu_cores_ > budgets_.cores, cores_text(cpu_cores_), cores_text(budgets_.cores),
        "lower search_time or search_evaluations, or raise cpu_budget");
}

Status OwnUseWatch::check_room_for_costs() const {
  if (!over_.at("costs")) return {};
  return unavailable("the cost database takes " + bytes_text(latest_.cost_bytes) + " of the " +
                     format_bytes(budgets_.costs) + " that it may (costs_limit)");
}

void OwnUseWatch::judge(const std::string& what, bool over, const std::string& taken, const std::string& allowed,
                        const std::string& remedy) {
  if (std::exchange(over_[what], over) == over) return;
  if (over)
    return warn_("the coordinator takes " + taken + " of " + what + ", and may take " + allowed + ": " + remedy);
  warn_("the coordinator is within its budget of " + what + " again");
}

}  // namespace trimtab::coordinator
