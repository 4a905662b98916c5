#include "jobs/unfinished_jobs.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "agents/agents.hpp"
#include "agents/wire_commands.hpp"
#include "agents/wire_events.hpp"
#include "schema/frame_bounds.hpp"
#include "services.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// Of one node: launches that are being ended, and new ones of them in a while. A later hello ends others.
constexpr std::size_t kMostStrays = 64;
constexpr Nanoseconds kStrayPeriod = std::chrono::minutes(1);

}  // namespace

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

// Of Agents: ranks that a node still has of launches that are over.

// Ranks of a run that is over, or of an earlier launch, which the agent could not be told to end while it was away.
// Launches that nobody can have given out are none.
void Agents::end_strays(const wire::Hello& hello, std::uint64_t believed) {
  std::map<std::pair<std::string, std::uint64_t>, std::string> strays;  // with the variant
  for (int i = 0; i < std::min(hello.running_size(), kMostRunning); ++i) {
    const wire::RunningRank& rank = hello.running(i);
    const JobRun* job = jobs_.find(rank.job());
    if (job == nullptr || rank.watched() || rank.launch() > believed) continue;  // a user's ranks are never ended
    const bool of_this = job->active() && job->state().launch == rank.launch();
    if (of_this && has_ranks_on(job->state(), hello.node())) continue;
    const std::string variant = rank.has_variant() ? rank.variant() : job->state().launch_variant;
    if (strays.size() < kMostStrays) strays.emplace(std::pair(rank.job(), rank.launch()), variant);
  }
  for (const auto& [stray, variant] : strays) {
    const auto& [name, launch] = stray;
    const std::string tag = "stray/" + std::to_string(launch) + "/" + hello.node();
    const JobRun& job = *jobs_.find(name);
    const auto id = stray_command(hello.node(), job, tag);
    if (!id) continue;
    if (says(stray_lines_)) {
      spdlog::warn("node {} still has ranks of launch {} of job {}; they are ended", hello.node(), launch, name);
    }
    // Of a job that has been launched again what these would save is older than what it has saved since.
    const KillOn kill{tag, hello.node(), launch, variant, job.active() && launch < job.state().launch};
    (void)send(hello.node(), command(kill, {*id, name, "", "", ""}));
  }
}

// The one that was sent before, or a new one: each is a commit, and a row until it is answered, so a node that says
// anything gets few.
bool Agents::says(LogPace& pace) {
  const LogPace::Answer answer = pace.next(services_.clock.monotonic());
  if (answer.left_out > 0) spdlog::warn("{} more lines of this kind were left out", answer.left_out);
  return answer.say;
}

std::optional<std::uint64_t> Agents::stray_command(const std::string& node, const JobRun& job, const std::string& tag) {
  Strays& strays = strays_[node];
  const std::pair key(job.run(), tag);
  if (const auto sent = strays.open.find(key); sent != strays.open.end()) return sent->second;
  const Nanoseconds now = services_.clock.monotonic();
  if (now - strays.since >= kStrayPeriod) {
    strays.since = now;
    strays.given = 0;
    // Of a run that is forgotten no answer is taken any more.
    std::erase_if(strays.open, [this](const auto& one) { return jobs_.find_run(one.first.first) == nullptr; });
  }
  if (strays.open.size() >= kMostStrays || strays.given >= kMostStrays) return std::nullopt;
  const auto id = services_.store.command_id(job.run(), tag, node);
  if (!id.ok()) return std::nullopt;
  ++strays.given;
  return strays.open.emplace(key, *id).first->second;
}

}  // namespace trimtab::coordinator
