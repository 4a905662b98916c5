#include "node/disk_use.hpp"
#include "node/agent_metric.hpp"

#include <sys/stat.h>

namespace trimtab::agent {

namespace {

namespace fs = std::filesystem;

// rank-0.log, rank-0.log.previous, agent.log.1
bool names_log(const std::string& name) {
  return name.find(".log") != std::string::npos;
}

}  // namespace

DiskWalk::DiskWalk(const std::string& state) : to_visit_{{state, Place::kState}} {}

bool DiskWalk::step(std::size_t entries) {
  for (; entries > 0; --entries) {
    if (entry_ == fs::directory_iterator()) {
      if (!enter_next()) return true;
      continue;
    }
    look(entry_->path());
    std::error_code gone;
    entry_.increment(gone);
    if (gone) entry_ = {};
  }
  return false;
}

bool DiskWalk::enter_next() {
  if (to_visit_.empty()) return false;
  const Directory next = std::move(to_visit_.back());
  to_visit_.pop_back();
  place_ = next.place;
  std::error_code gone;
  entry_ = fs::directory_iterator(next.path, gone);
  if (gone) entry_ = {};
  return true;
}

void DiskWalk::look(const fs::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return;
  if (S_ISDIR(found.st_mode)) return look_at_directory(path);
  if (S_ISREG(found.st_mode)) sum_of(path.filename().string()) += found.st_size;
}

void DiskWalk::look_at_directory(const fs::path& path) {
  const std::string name = path.filename().string();
  switch (place_) {
    case Place::kState:
      if (name == "jobs" || name == "removed-jobs") to_visit_.push_back({path.string(), Place::kJobs});
      return;
    case Place::kJobs:
      to_visit_.push_back({path.string(), Place::kJob});
      return;
    case Place::kJob:
    case Place::kBelow:
      to_visit_.push_back({path.string(), Place::kBelow});
      return;
  }
}

Bytes& DiskWalk::sum_of(const std::string& name) {
  if (place_ == Place::kBelow) return found_.snapshots;
  if (names_log(name)) return found_.logs;
  return place_ == Place::kState ? found_.databases : found_.scratch;
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
        "shorten job_retention, lower rank_log_limit, or raise "
        "disk_budget");
}

void DiskUseWatch::append_metrics(std::vector<net::Metric>& into) const {
  const auto part = [&into](const char* what, Bytes bytes) {
    into.push_back(gauge("disk_bytes", "What stands in the agent's state directory, at the last look.",
                         static_cast<double>(bytes), std::string("{what=\"") + what + "\"}"));
  };
  if (latest_) {
    part("databases", latest_->databases);
    part("logs", latest_->logs);
    part("scratch", latest_->scratch);
    part("snapshots", latest_->snapshots);
  }
  into.push_back(gauge("disk_budget_bytes",
                       "What databases, logs and scratch of those may take before the agent warns.",
                       static_cast<double>(budget_)));
}

}  // namespace trimtab::agent
