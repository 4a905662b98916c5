// Does the incumbent still take what it took? If not, what has changed, and the tuning begins again from it, or goes
// on.

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/numbers.hpp"
#include "tuning/trial/gains.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kDrifts = 32;  // that are remembered
// A link that comes and goes must not keep the job tuning: after each time it waits twice as long for the next, at most
// this part of its steps.
constexpr std::int64_t kFirstWait = 500;  // steps
constexpr std::int64_t kLongestWaitShare = 10;

constexpr double kSameLevel = 0.04;  // of a step's time: half of the least that is a change (change_point.hpp)

// A machine that wanders for reasons that no probe shows: what the plan takes now lies among what it took when the job
// was tuned again for no known cause before, and kept it.
bool was_kept_there(const TuningState& state, const Drift& drift) {
  double least = 0;
  double most = 0;
  for (auto one = std::next(state.drifts.rbegin()); one != state.drifts.rend(); ++one) {
    if (one->plan_hash != drift.plan_hash || !one->what.empty()) break;
    if (!one->kept) continue;
    const auto [low, high] = std::minmax(one->before_ms, one->after_ms);
    least = least > 0 ? std::min(least, low) : low;
    most = std::max(most, high);
  }
  return least > 0 && drift.after_ms >= least * (1 - kSameLevel) && drift.after_ms <= most * (1 + kSameLevel);
}

Measured scaled(const Measured& measured, double ratio) {
  return {measured.mean_ms * ratio, measured.low_ms * ratio, measured.high_ms * ratio, measured.steps};
}

}  // namespace

// A warm step of the incumbent, in a block of its own or outside of all: from the first one measured to the job's last
// they are one series, in which an adopted plan's steps count as the trial has measured them beside those of the plan
// before it.
void Tuning::watch_for_drift(const JobStep& step) {
  if (state_.doing == Doing::kProbing || !state_.believes(step.wall_ms)) return;
  if (state_.phase == Phase::kTraining && view_.is_calm() && drift_is_due()) return explain_drift();
  if (!change_point_) change_point_.emplace();
  const auto change = change_point_->add(step.step, step.wall_ms);
  if (!change) return;
  change_point_.reset();
  notice_drift(*change, step.step);
}

void Tuning::notice_drift(const StepChange& change, std::int64_t step) {
  Drift drift;
  drift.plan_hash = state_.incumbent.hash;
  drift.since_step = change.since_step;
  drift.noticed_step = step;
  drift.before_ms = change.before_ms;
  drift.after_ms = change.after_ms;
  if (!view_.is_calm()) drift.during = purpose();
  add_drift(drift);
  out_.note("drift", "since step " + std::to_string(drift.since_step) + " a step of the incumbent takes " +
                    format_ms(drift.after_ms) + " beside " + format_ms(drift.before_ms) +
                    " before: " + format_fixed(drift.after_ms / drift.before_ms, 2) + " times as long" +
                    (drift.during.empty() ? "" : ", noticed in " + drift.during));
  carry_over_drift(drift);
  if (state_.doing == Doing::kAwaitingApproval) withdraw_question("the incumbent's step time has changed");
  if (waits_to_retune()) return note_wait();
  const bool searches = state_.phase == Phase::kTrials && state_.doing == Doing::kSearching;
  if (view_.is_calm() || searches) return explain_drift();
  if (!interleaving_) return;
  out_.note("drift", "what is measured in turn is not wrong by it and goes on; what has changed is looked for after it");
}

void Tuning::add_drift(const Drift& drift) {
  state_.drifts.push_back(drift);
  out_.changed = true;
  if (state_.drifts.size() <= kDrifts) return;
  const auto told = std::ranges::find_if(state_.drifts, [](const Drift& one) { return one.trials_before < 0; });
  state_.drifts.erase(std::next(told) == state_.drifts.end() ? state_.drifts.begin() : told);
}

// One was noticed, and it is time to do something about it.
bool Tuning::drift_is_due() const {
  const bool allowed = !view_.held() && state_.job.mode != JobMode::kObserve && !state_.stop_asked;
  return allowed && has_open_drift() && !waits_to_retune();
}

bool Tuning::has_open_drift() const {
  return !state_.drifts.empty() && !state_.drifts.back().handled;
}

// Nothing is under way and the job trains: what is to be done besides.
void Tuning::train_on() {
  if (state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  if (drift_is_due()) return explain_drift();
  // What is compared later: as the hardware is now, under this plan.
  if (state_.probed_plan_hash != state_.incumbent.hash) look_at_hardware();
  if (state_.spare.plan.empty() && !searches_.is_asked(SearchFor::kSpare)) prepare_spare();
}

void Tuning::explain_drift() {
  if (view_.held() || state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  state_.doing = Doing::kProbing;
  probing_since_ = now_.monotonic;
  look_since_.reset();
  out_.changed = true;
  out_.act(ProbeHardware{.since_step = state_.drifts.back().since_step,
                    .plan_hash = state_.incumbent.hash,
                    .urgent = true,
                    .takes = kProbeTakes});
}

// The probes that a drift has waited for.
void Tuning::explained(const HardwareProbed& probed) {
  if (!probed.error.empty() || probed.probes.empty()) {
    forget_kept();
    return not_explained(probed.error);
  }
  Drift& drift = state_.drifts.back();
  out_.changed = true;
  const bool priced = price_other_hardware(probed.probes);
  forget_late_baseline(drift);
  const bool comparable = !state_.last_probes.empty();
  std::vector<Finding> findings = diagnose(state_.last_probes, probed.probes);
  std::erase_if(findings, [this](const Finding& one) { return history_.is_usual(one); });
  // What prices plans is what it was, and no look has said otherwise.
  const bool as_known = comparable && !priced && findings.empty() && slower_.empty();
  if (!as_known) forget_kept();
  history_.begin_anew(probed.probes);
  slower_.clear();
  state_.last_probes = probed.probes;
  state_.probed_plan_hash = probed.plan_hash.empty() ? state_.incumbent.hash : probed.plan_hash;
  if (!comparable) return not_explained("nothing was probed before it");
  take_device_shares(findings);
  const bool slower = drift.after_ms > drift.before_ms;
  const std::vector<Finding> causes = explaining(findings, slower);
  if (causes.empty()) {
    const std::string why =
        std::string("no device and no link is clearly ") + (slower ? "slower" : "faster") + " than before";
    if (!goes_on_as_kept(why)) not_explained(why);
    return;
  }
  name_causes(causes, drift);
  out_.note("drift", "what has changed: " + drift.what);
  retune();
}

void Tuning::name_causes(const std::vector<Finding>& causes, Drift& drift) {
  const auto is_link = [](const Finding& one) { return one.is_link(); };
  drift.links = std::any_of(causes.begin(), causes.end(), is_link);
  drift.devices = !std::all_of(causes.begin(), causes.end(), is_link);
  const bool recovered = drift.by_look && !causes.empty() && causes.front().share > 1;
  drift.what = (recovered ? "recovered: " : "") + to_text(causes);
}

// Which of the costs the drift has made wrong, and what they are taken to be until trials measure again.
void Tuning::note_stale(const SearchReply& reply) {
  const bool first = !state_.drifts.empty() && state_.drifts.back().handled && state_.drifts.back().stale.empty();
  if (!first || state_.observations.size() > 1) return;
  const LinkChanges links = link_changes(state_.first_probes, state_.last_probes);
  std::string text = to_text(links);
  const auto slowed = slowed_devices();
  for (const auto& [device, share] : slowed) {
    text += (text.empty() ? "" : ", ") + std::string("device ") + std::to_string(device) + " at " +
            format_percent(share) + " of its speed";
  }
  if (text.empty()) return;
  Drift& drift = state_.drifts.back();
  if (reply.costs_stale == 0 && slowed.empty() && links.levels.empty()) {
    drift.stale = "what goes over these links alone is taken as probed (" + text +
                  ") beside what was measured over their level, and all costs as they are";
  } else if (reply.costs_stale == 0 && slowed.empty()) {
    drift.stale = "no measured cost is of links that have changed; what is estimated of them is taken as probed (" +
                  text + "), and the others as they are";
  } else {
    drift.stale = "stale are " + std::to_string(reply.costs_stale) + " of " + std::to_string(reply.costs_known) +
                  " costs, of links" + (slowed.empty() ? "" : ", and all operators' on slow devices") +
                  "; until trials measure, they are taken as probed (" + text + "), and the others as they are";
  }
  out_.changed = true;
  out_.note("drift", drift.stale);
}

void Tuning::not_explained(const std::string& why) {
  Drift& drift = state_.drifts.back();
  if (!drift.by_look) {
    out_.note("drift", "what has changed is not known: " + why);
    return retune();
  }
  leave_drift("what a look at the hardware had found is no more: " + why);
}

bool Tuning::goes_on_as_kept(const std::string& why) {
  const Drift& drift = state_.drifts.back();
  const bool may = state_.phase == Phase::kTraining && state_.job.mode == JobMode::kAuto && !drift.by_look &&
                   drift.plan_hash == state_.incumbent.hash;
  if (!may || !was_kept_there(state_, drift)) return false;
  leave_drift("what has changed is not known: " + why +
              ". Steps took as long when the job was tuned again before and kept its plan: it goes on with it");
  return true;
}

// What was tuned for was another machine.
void Tuning::forget_kept() {
  for (Drift& drift : state_.drifts) drift.kept = false;
}

void Tuning::leave_drift(const std::string& why) {
  state_.drifts.back().handled = true;
  state_.doing = Doing::kNothing;
  out_.changed = true;
  out_.note("drift", why);
  settled();
}

// What was measured before is of another machine: it remains as a prior, less sure where the drift may have changed it.
// Plans that failed stay failed, but for those that hung: what they waited for may be what has changed. A trial that
// began after the drift has said what it has said.
void Tuning::retune() {
  Drift& drift = state_.drifts.back();
  drift.handled = true;
  state_.doing = Doing::kNothing;
  out_.changed = true;
  if (!enough_steps_for_trial(state_)) {
    if (state_.phase == Phase::kTrials) return finish_trials("the machine has changed, and too few steps are left");
    out_.note("drift", "too few steps are left to tune again");
    if (state_.job.trials.stop_after) end_tuning();
    return;
  }
  out_.decide("tune again", drift.by_look ? drift.what
                                      : "the step time has changed from " + format_ms(drift.before_ms) + " to " +
                                            format_ms(drift.after_ms) + (drift.what.empty() ? "" : ": " + drift.what));
  drift.gained_before = gained(state_).value_or(Ratio{});
  state_.observations.clear();
  pass_times_.clear();
  state_.compared = state_.retuned_compared = false;  // of the hardware as it was
  state_.comparisons_begun = 0;
  state_.earlier_calibration_json = state_.calibration_json;
  state_.begin_trials_anew(drift.since_step);
  drift.trials_before = state_.trials_before_drift;
  if (is_of_the_machine_now(drift)) observe(state_.incumbent, state_.incumbent_measured);
  state_.trials_before_tuning = state_.trials_begun();
  state_.retuned_from = {state_.incumbent, state_.incumbent_predicted, state_.incumbent_measured};
  const std::int64_t longest = std::max<std::int64_t>(state_.job.steps / kLongestWaitShare, 1);
  state_.retune_wait = std::min(state_.retune_wait > 0 ? 2 * state_.retune_wait : kFirstWait, longest);
  state_.retuned_step = state_.step;
  state_.spare = {};
  no_spare_.clear();
  if (state_.phase != Phase::kTrials) enter(Phase::kTrials);
  settled();
}

bool Tuning::waits_to_retune() const {
  return state_.step < state_.retuned_step + state_.retune_wait;
}

void Tuning::note_wait() {
  out_.note("drift", "the job is not tuned again for it before step " +
                    std::to_string(state_.retuned_step + state_.retune_wait) + ": it was a short while ago");
}

// The drift tells what its own plan takes now. Any other plan's time is taken to have changed as much, until it is
// measured again.
void Tuning::carry_over_drift(const Drift& drift) {
  const double ratio = drift.after_ms / drift.before_ms;
  for (Replaced& one : state_.replaced) one.measured = scaled(one.measured, ratio);
  Measured& measured = state_.incumbent_measured;
  const double sigma = measured.mean_ms > 0 ? measured.sigma_ms() / measured.mean_ms : 0.02;
  const double reach = 1.96 * std::max(sigma, 0.01) * drift.after_ms;
  measured = {drift.after_ms, drift.after_ms - reach, drift.after_ms + reach,
              static_cast<int>(drift.noticed_step - drift.since_step)};
}

// What is known of the incumbent's time was measured since the drift; else the drift of another plan is all that tells.
bool Tuning::is_of_the_machine_now(const Drift& drift) const {
  if (drift.plan_hash == state_.incumbent.hash) return true;
  return std::ranges::any_of(state_.trials, [&](const Trial& one) {
    return one.state == TrialState::kAdopted && one.plan.hash == state_.incumbent.hash &&
           one.begun_step >= drift.since_step;
  });
}

}  // namespace trimtab::coordinator
