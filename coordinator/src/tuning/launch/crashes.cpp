// Launches that crash: whose fault it is, and how often a plan may.

#include <algorithm>

#include "base/numbers.hpp"
#include "base/units.hpp"
#include "tuning/launch/launch.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::int32_t kRelaunches = 3;  // of the untuned run

// A launch of a plan that has trained before, which ended before any rank connected: ranks that cannot reach each
// other, say. That is no fault of the plan, and may end by itself.
bool never_began(const View& view) {
  return view.state.doing == Doing::kLaunching && view.state.phase != Phase::kLaunching && !view.running.is_told() &&
         !view.state.has_grown();
}

}  // namespace

void forget_old(std::vector<Crash>& crashes, const CrashSettings& settings, std::int64_t wall_ns, std::int64_t step) {
  std::erase_if(crashes, [&](const Crash& one) {
    return wall_ns - one.wall_ns >= settings.within.count() && step - one.step >= settings.within_steps;
  });
}

std::int32_t crashes_of(const std::vector<Crash>& crashes, const std::string& plan_hash) {
  return static_cast<std::int32_t>(
      std::count_if(crashes.begin(), crashes.end(), [&](const Crash& one) { return one.plan_hash == plan_hash; }));
}

std::string too_often(std::int32_t count, const CrashSettings& settings) {
  const double within_s = std::chrono::duration<double>(settings.within).count();
  return std::to_string(count) + " times, with " + std::to_string(settings.limit) + " times within " +
         format_number(within_s) + " s or " + std::to_string(settings.within_steps) + " steps allowed (crashes.limit)";
}

Next Launch::launch_until_it_begins(const Reason& reason, const std::string& why) {
  const CrashSettings& settings = m_.state.job.crashes;
  const bool often = crashes_of(m_.state.crashes, kNoPlan) > settings.limit;
  // There may be very many. The first tells how long this has lasted.
  if (!often) m_.state.crashes.push_back({m_.now.wall.count(), m_.state.step, m_.state.launch, kNoPlan, why});
  const auto first = std::ranges::find(m_.state.crashes, kNoPlan, &Crash::plan_hash);
  const Nanoseconds lasted(m_.now.wall.count() - first->wall_ns);
  if (!often || lasted < settings.within) return kill(AfterKill::kRelaunch);
  return give_up_incumbent(reason, "no rank has come to a step for " + format_duration(lasted) + "; last: " + why);
}

// The incumbent has crashed. One that was adopted and does so too often is left for the plan before it; where there is
// none the job is halted, or has failed if it never trained: then there is nothing to go on with.
Next Launch::relaunch(const Reason& reason, const std::string& why) {
  m_.out.note("ranks", why);
  if (never_began(m_.view)) return launch_until_it_begins(reason, why);
  const CrashSettings& settings = m_.state.job.crashes;
  m_.state.crashes.push_back({m_.now.wall.count(), m_.state.step, m_.state.launch, m_.state.incumbent.hash, why});
  forget_old(m_.state.crashes, settings, m_.now.wall.count(), m_.state.step);
  const std::int32_t crashes = crashes_of(m_.state.crashes, m_.state.incumbent.hash);
  if (m_.elastic.gives_up_growth(crashes)) return {Next::kGoBack, why};
  if (crashes <= settings.limit) return kill(AfterKill::kRelaunch);
  return give_up_incumbent(reason, "its ranks have crashed " + too_often(crashes, settings) + "; last: " + why);
}

Next Launch::give_up_incumbent(const Reason& reason, const std::string& all) {
  if (m_.give_back_incumbent(reason, all)) return kill(AfterKill::kRelaunch);
  const bool trained = m_.state.phase != Phase::kLaunching || !m_.state.elastic.resizes.empty();
  m_.state.failure = all;
  return kill(trained ? AfterKill::kHalt : AfterKill::kFail);
}

// A crash that was not the incumbent's.
Next Launch::launch_again(const std::string& why) {
  m_.out.note("ranks", why);
  return kill(AfterKill::kRelaunch);
}

// It holds nothing that anybody needs, so it begins again.
Next Launch::untuned_run_failed(const std::string& why) {
  m_.out.note("ranks", "the untuned run failed: " + why);
  if (++m_.state.relaunches <= kRelaunches) return kill(AfterKill::kUntuned);
  m_.state.loss_note = "the untuned run failed " + std::to_string(m_.state.relaunches) + " times, last: " + why;
  return kill(AfterKill::kFinish);
}

Next Launch::crashed(const Reason& reason, const std::string& why) {
  if (m_.state.wants_no_ranks()) return {};
  if (m_.state.phase == Phase::kUntuned) return untuned_run_failed(why);
  if (m_.state.phase == Phase::kStopping) {
    m_.out.note("warning", why);
    return kill(m_.state.stop_asked ? AfterKill::kStop : AfterKill::kUntuned);
  }
  if (!m_.state.has_ranks()) return {};
  m_.overhead.blame_trial(m_.state.is_about_trial());
  if (m_.state.is_about_trial()) m_.overhead.stand_still();
  if (m_.state.runs_trial()) return {Next::kTrialLaunchFailed, why, reason};
  if (m_.state.has_trial() && m_.state.doing != Doing::kAwaitingApproval) {
    const std::string& candidate = m_.state.trials.back().plan.hash;
    const auto* const change = m_.activity.get<PlanChange>();
    const bool moving = change != nullptr && change->plan.hash == candidate;
    const bool blamed = moving || m_.running.hash() == candidate || m_.running.hash().empty();
    m_.fail_trial(reason, why, blamed);
    if (blamed) return launch_again(why);
  }
  // In the final comparison it may be the initial plan's; and ranks whose peers' node is away cannot go on.
  const bool of_another = !m_.running.hash().empty() && m_.running.hash() != m_.state.incumbent.hash;
  if (of_another || !m_.lost.empty()) return launch_again(why);
  return relaunch(reason, why);
}

}  // namespace trimtab::coordinator
