#include "jobs/unfinished_jobs.hpp"

#include <algorithm>
#include <utility>

#include "schema/frame_bounds.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {

void UnfinishedJobs::introduced(const Member& member, const wire::Hello& hello) {
  Told& told = told_[member.peer] = {};
  if (member.tenant.empty()) return;  // it is told of all
  for (const wire::JobLaunch& one : hello.launches()) told.named.insert(one.job());
  for (const wire::RunningRank& one : hello.running()) told.named.insert(one.job());
  told.named_all = std::cmp_less(hello.launches_size(), kMostLaunches);
}

bool UnfinishedJobs::look() {
  Seen now;
  now.complete = jobs_.knows_all();
  for (const auto& [name, job] : jobs_.jobs()) {
    // That it is over is not true before it is stored: a coordinator that ends first takes it up again.
    const bool is_over = !job->active() && job->storage_failure().empty();
    if (!is_over) now.tenants.emplace_hint(now.tenants.end(), name, job->state().tenant);
  }
  if (now == seen_) return false;
  seen_ = std::move(now);
  frames_.clear();
  return true;
}

UnfinishedJobs::Frame UnfinishedJobs::news_for(const Member& member) {
  Told& told = told_[member.peer];
  Frame frame = frame_for(member, told);
  const bool is_news = !told.frame || *told.frame != *frame;
  told.frame = std::move(frame);
  return is_news ? told.frame : nullptr;
}

UnfinishedJobs::Frame UnfinishedJobs::frame_for(const Member& member, const Told& told) {
  // Which names it may know is not shown any more: it is told none, and removes nothing.
  if (member.barred)
    return std::make_shared<const std::string>(encoded(false, [](const NameAndTenant&) { return false; }));
  const std::set<std::string> others = others_of(member, told);
  const auto is_told = [&](const NameAndTenant& job) {
    return member.serves(job.second) || others.contains(job.first);
  };
  if (!others.empty() || !told.named_all) {
    return std::make_shared<const std::string>(encoded(seen_.complete && told.named_all, is_told));
  }
  Frame& shared = frames_[member.tenant];
  if (!shared) shared = std::make_shared<const std::string>(encoded(seen_.complete, is_told));
  return shared;
}

// Those of other tenants that are not over.
std::set<std::string> UnfinishedJobs::others_of(const Member& member, const Told& told) const {
  std::set<std::string> others;
  for (const std::string& name : told.named) {
    const auto found = seen_.tenants.find(name);
    if (found != seen_.tenants.end() && !member.serves(found->second)) others.insert(name);
  }
  return others;
}

std::string UnfinishedJobs::encoded(bool complete, const std::function<bool(const NameAndTenant&)>& is_told) const {
  wire::ToAgent message;
  wire::UnfinishedJobs& unfinished = *message.mutable_unfinished_jobs();
  unfinished.set_complete(complete);
  for (const NameAndTenant& job : seen_.tenants) {
    if (is_told(job)) unfinished.add_jobs(job.first);
  }
  if (static_cast<std::size_t>(unfinished.jobs_size()) > kMost) {
    unfinished.set_complete(false);
    unfinished.clear_jobs();
  }
  return message.SerializeAsString();
}

}  // namespace trimtab::coordinator
