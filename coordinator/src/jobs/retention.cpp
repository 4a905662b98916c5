#include "jobs/retention.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <span>
#include <utility>

#include "state_store.hpp"

namespace trimtab::coordinator {

void Retention::tick() {
  const Nanoseconds now = services_.clock.monotonic();
  if (const Nanoseconds jump = clocks_.look(now, services_.clock.wall()); jump.count() != 0) {
    spdlog::warn("the wall clock has jumped by {} s: until it has been steady for a day, what is over is kept",
                 std::chrono::duration_cast<std::chrono::seconds>(jump).count());
  }
  if (now < next_look_) return;
  if (!forget_some()) next_look_ = now + kPeriod;
}

bool Retention::forget_some() {
  const std::int64_t now_ns = services_.clock.wall().count();
  bool more = false;
  for (const auto& outcome : {forget_of_runs(now_ns), forget_of_audit(now_ns), fold_costs(), thin_steps()}) {
    if (outcome.ok()) {
      more = more || *outcome;
      continue;
    }
    ++services_.counters.retention_failures;
    spdlog::warn("what is over is kept a while longer: {}", outcome.error().message);
    return false;
  }
  return more;
}

bool Retention::may_go(Nanoseconds limit) const {
  return limit.count() != 0 && clocks_.tells(limit, services_.clock.monotonic());
}

Result<bool> Retention::forget_of_runs(std::int64_t now_ns) {
  if (!may_go(services_.settings.job_retention)) return false;
  const auto limit = static_cast<std::int64_t>(unreadable_.size()) + 1;
  TRIMTAB_TRY(const auto runs, services_.store.runs_over(now_ns - services_.settings.job_retention.count(), limit));
  const auto old = std::ranges::find_if(runs, [this](std::int64_t run) { return !unreadable_.contains(run); });
  if (old != runs.end()) return forget_of_run(*old);
  const auto surplus = jobs_.surplus();
  if (!surplus || unreadable_.contains(*surplus)) return false;
  return forget_of_run(*surplus);
}

Result<bool> Retention::forget_of_run(std::int64_t run) {
  const auto done = services_.store.forget_run(run, kRunRows);
  if (!done.ok() && done.error().kind == ErrorKind::kBadInput) {
    spdlog::error("run {} is kept, its state cannot be read: {}", run, done.error().message);
    unreadable_.insert(run);
    return true;
  }
  if (!done.ok()) return done.error();
  jobs_.forget(run);
  if (*done) ++services_.counters.runs_forgotten;
  return true;
}

Result<bool> Retention::forget_of_audit(std::int64_t now_ns) {
  const Nanoseconds now = services_.clock.monotonic();
  if (!may_go(services_.settings.audit_retention) || now < next_audit_) return false;
  TRIMTAB_TRY(const std::uint64_t removed,
              services_.store.forget_audit(now_ns - services_.settings.audit_retention.count(), kAuditRows, now_ns));
  services_.counters.audit_forgotten += removed;
  if (removed > 0 && removed < static_cast<std::uint64_t>(kAuditRows))
    next_audit_ = now + services_.settings.audit_retention / kAuditRemovals;
  return removed == static_cast<std::uint64_t>(kAuditRows);
}

// By their number: done also while the wall clock cannot be trusted.
Result<bool> Retention::thin_steps() {
  if (to_thin_.empty()) {
    std::set<std::int64_t> thin;
    for (const auto& [name, job] : jobs_.jobs()) {
      const bool done = !job->active() && thin_.contains(job->run());
      if (done) thin.insert(job->run());
      if (!done) to_thin_.push_back(job->run());
    }
    thin_ = std::move(thin);
  }
  for (int looked = 0; looked < kRunsAtOnce && !to_thin_.empty(); ++looked) {
    const std::int64_t run = to_thin_.back();
    TRIMTAB_TRY(const bool more, services_.store.thin_steps(run));
    if (more) return true;
    to_thin_.pop_back();
    const JobRun* const job = jobs_.find_run(run);
    if (job != nullptr && !job->active()) thin_.insert(run);
  }
  return !to_thin_.empty();
}

// By no age on the wall clock, and nothing is lost by it: done also while that cannot be trusted.
Result<bool> Retention::fold_costs() {
  auto more = idle_origins_.fold_some();
  if (!more.ok()) return wrap("cannot fold the costs of idle origins", more.error());
  return more;
}

Result<bool> IdleOrigins::fold_some() {
  if (!due_.empty()) return fold_due();
  one_by_one_ = false;
  if (clock_.monotonic() < next_round_) return false;
  return look();
}

Result<bool> IdleOrigins::look() {
  TRIMTAB_TRY(const auto origins, costs_.unfolded_origins(looked_until_, kOriginsAtOnce));
  for (const UnfoldedOrigin& origin : origins) {
    if (origin.is_stuck || unreadable_.contains(origin.name)) continue;
    if (is_idle(origin)) due_.push_back(origin.name);
  }
  if (origins.size() == kOriginsAtOnce) {
    looked_until_ = origins.back().id;
    return true;
  }
  looked_until_ = 0;
  seen_ = std::exchange(round_, {});
  next_round_ = clock_.monotonic() + kPause;
  return !due_.empty();
}

bool IdleOrigins::is_idle(const UnfoldedOrigin& origin) {
  const Nanoseconds now = clock_.monotonic();
  const auto before = seen_.extract(origin.id);
  const bool is_same = !before.empty() && before.mapped().last == origin.last;
  const Nanoseconds since = is_same ? before.mapped().since : now;
  if (now - since >= kIdle) return true;
  round_[origin.id] = {origin.last, since};
  return false;
}

Result<bool> IdleOrigins::fold_due() {
  const auto done = costs_.fold_origins(std::span(due_).first(one_by_one_ ? 1 : due_.size()));
  if (!done.ok()) return done.error().kind == ErrorKind::kBadInput ? set_apart(done.error()) : done.error();
  due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(*done));
  return true;
}

// One that is damaged must not keep the others from being folded.
Result<bool> IdleOrigins::set_apart(const Error& reason) {
  if (!std::exchange(one_by_one_, true)) return true;
  spdlog::error("the costs of {} stay as they are, they cannot be read: {}", due_.front(), reason.message);
  unreadable_.insert(due_.front());
  due_.erase(due_.begin());
  return true;
}

}  // namespace trimtab::coordinator
