// After tuning: does the incumbent still take what it took? If not, what has changed, and the tuning begins again from
// it.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/numbers.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr std::size_t kDrifts = 32;  // that are remembered
// A link that comes and goes must not keep the job tuning: after each time it waits twice as long for the next, at most
// this part of its steps.
constexpr std::int64_t kFirstWait = 500;  // steps
constexpr std::int64_t kLongestWaitShare = 10;

Measured scaled(const Measured& measured, double ratio) {
  return {measured.mean_ms * ratio, measured.low_ms * ratio, measured.high_ms * ratio, measured.steps};
}

// A device is not taken to be slower while the job's steps are as they were: what was known of it stays, for a drift to
// be compared with.
std::vector<Probe> with_devices_as_before(std::vector<Probe> now, const std::vector<Probe>& before,
                                          const std::vector<Finding>& findings) {
  const auto same = [](const Probe& a, const Probe& b) {
    return std::tie(a.device, a.node, a.work) == std::tie(b.device, b.node, b.work);
  };
  for (Probe& one : now) {
    const auto is_this = [&](const Probe& other) { return same(one, other); };
    const bool changed = std::ranges::any_of(findings, [&](const Finding& of) { return is_this(of.probe); });
    const auto known = std::ranges::find_if(before, is_this);
    if (one.device >= 0 && changed && known != before.end()) one = *known;
  }
  return now;
}

}  // namespace

// Nothing is under way: the job trains on, or trains while somebody is asked whether to try a plan.
bool Tuning::is_calm() const {
  const bool trains_on = state_.phase == Phase::kTraining && state_.doing == Doing::kNothing;
  const bool asks = state_.phase == Phase::kTrials && state_.doing == Doing::kAwaitingApproval;
  return lost_.empty() && (trains_on || asks);
}

void Tuning::watch_for_drift(const JobStep& step) {
  if (!is_calm() || !running(state_.incumbent)) return change_point_.reset();
  const bool asks = state_.doing == Doing::kAwaitingApproval;
  const bool postponed = !asks && !state_.drifts.empty() && !state_.drifts.back().handled;
  if (postponed && !waits_to_retune()) explain_drift();
  if (!is_calm()) return;
  if (!change_point_) change_point_.emplace();
  const auto change = change_point_->add(step.step, step.wall_ms);
  if (!change) return;
  change_point_.reset();
  Drift drift;
  drift.plan_hash = state_.incumbent.hash;
  drift.since_step = change->since_step;
  drift.noticed_step = step.step;
  drift.before_ms = change->before_ms;
  drift.after_ms = change->after_ms;
  state_.drifts.push_back(drift);
  if (state_.drifts.size() > kDrifts) state_.drifts.erase(state_.drifts.begin());
  transition();
  note("drift", "since step " + std::to_string(drift.since_step) + " a step of the incumbent takes " +
                    format_ms(drift.after_ms) + " beside " + format_ms(drift.before_ms) +
                    " before: " + format_fixed(drift.after_ms / drift.before_ms, 2) + " times as long");
  if (asks) withdraw_question("the incumbent's step time has changed");
  if (!waits_to_retune()) return explain_drift();
  note("drift", "the job is not tuned again before step " + std::to_string(state_.retuned_step + state_.retune_wait) +
                    ": it was a short while ago");
}

// Nothing is under way and the job trains: what is to be done besides.
void Tuning::train_on() {
  if (state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  if (!state_.drifts.empty() && !state_.drifts.back().handled && !waits_to_retune()) {
    return explain_drift();
  }
  // What is compared later: as the hardware is now, under this plan.
  if (state_.probed_plan_hash != state_.incumbent.hash) {
    act(ProbeHardware{state_.step, state_.incumbent.hash});
  }
  if (state_.spare.plan.empty() && spare_search_ == 0) prepare_spare();
}

void Tuning::explain_drift() {
  if (held() || state_.job.mode == JobMode::kObserve || state_.stop_asked) return;
  state_.doing = Doing::kProbing;
  probing_since_ = now_.monotonic;
  transition();
  act(ProbeHardware{state_.drifts.back().since_step, state_.incumbent.hash, true});
}

void Tuning::on(const HardwareProbed& probed) {
  const bool asked = state_.doing == Doing::kProbing;
  if (!probed.error.empty() || probed.probes.empty()) {
    if (asked) not_explained(probed.error);
    return;
  }
  transition();
  // Probed first in the middle of a drift: there is nothing to compare with.
  const bool comparable = !state_.first_probes.empty();
  if (!comparable) {
    state_.first_probes = probed.probes;
    act(RememberProbes{to_json(probed.probes)});
  }
  const std::vector<Finding> findings =
      comparable ? diagnose(state_.last_probes, probed.probes) : std::vector<Finding>();
  state_.last_probes = asked ? probed.probes : with_devices_as_before(probed.probes, state_.last_probes, findings);
  state_.probed_plan_hash = probed.plan_hash.empty() ? state_.incumbent.hash : probed.plan_hash;
  if (asked) take_device_shares(findings);
  if (!asked && findings.empty()) {
    note("drift", std::to_string(probed.probes.size()) + " devices and links were probed under this plan");
  }
  if (!asked && !findings.empty()) note("drift", "beside what was probed last, " + to_text(findings));
  if (!asked) return;
  Drift& drift = state_.drifts.back();
  const bool slower = drift.after_ms > drift.before_ms;
  const std::vector<Finding> causes = explaining(findings, slower);
  if (causes.empty()) {
    return not_explained(std::string("no device and no link is clearly ") + (slower ? "slower" : "faster") +
                         " than before");
  }
  const auto is_link = [](const Finding& one) { return one.is_link(); };
  drift.links = std::any_of(causes.begin(), causes.end(), is_link);
  drift.devices = !std::all_of(causes.begin(), causes.end(), is_link);
  drift.what = to_text(causes);
  note("drift", "what has changed: " + drift.what);
  retune();
}

// A share of a share: findings compare with the last probes, and these with those before.
void Tuning::take_device_shares(const std::vector<Finding>& findings) {
  constexpr double kAsBefore = 0.95;
  for (const auto& [device, share] : device_shares(findings, state_.cluster_json)) {
    const double left = state_.slow_devices.try_emplace(device, 1).first->second *= share;
    if (left >= kAsBefore) state_.slow_devices.erase(device);
  }
}

// Which of the costs the drift has made wrong, and what they are taken to be until trials measure again.
void Tuning::note_stale(const SearchReply& reply) {
  const bool first = !state_.drifts.empty() && state_.observations.size() <= 1 && state_.trials_made() == 0;
  if (!first) return;
  std::string text = to_text(link_changes(state_.first_probes, state_.last_probes));
  for (const auto& [device, share] : state_.slow_devices) {
    text += (text.empty() ? "" : ", ") + std::string("device ") + std::to_string(device) + " at " +
            format_percent(share) + " of its speed";
  }
  if (text.empty()) return;
  Drift& drift = state_.drifts.back();
  if (reply.costs_stale == 0 && state_.slow_devices.empty()) {
    drift.stale = "no measured cost is of links that have changed; what is estimated of them is taken as probed (" +
                  text + "), and the others as they are";
  } else {
    drift.stale = "stale are " + std::to_string(reply.costs_stale) + " of " + std::to_string(reply.costs_known) +
                  " costs, of links" + (state_.slow_devices.empty() ? "" : ", and all operators' on slow devices") +
                  "; until trials measure, they are taken as probed (" + text + "), and the others as they are";
  }
  transition();
  note("drift", drift.stale);
}

void Tuning::not_explained(const std::string& why) {
  note("drift", "what has changed is not known: " + why);
  retune();
}

// What was measured before is of another machine: it remains as a prior, less sure where the drift may have changed it.
// Plans that failed stay failed, but for those that hung: what they waited for may be what has changed.
void Tuning::retune() {
  Drift& drift = state_.drifts.back();
  drift.handled = true;
  state_.doing = Doing::kNothing;
  transition();
  if (!enough_steps_for_trial()) {
    note("drift", "too few steps are left to tune again");
    if (state_.job.trials.stop_after) end_tuning();
    return;
  }
  decided("tune again", "the step time has changed from " + format_ms(drift.before_ms) + " to " +
                            format_ms(drift.after_ms) + (drift.what.empty() ? "" : ": " + drift.what));
  state_.observations.clear();
  pass_times_.clear();
  state_.compared = false;  // of the hardware as it was
  state_.earlier_calibration_json = state_.calibration_json;
  state_.begin_trials_anew();
  drift.trials_before = state_.trials_before_drift;
  carry_over_drift(drift);
  const std::int64_t longest = std::max<std::int64_t>(state_.job.steps / kLongestWaitShare, 1);
  state_.retune_wait = std::min(state_.retune_wait > 0 ? 2 * state_.retune_wait : kFirstWait, longest);
  state_.retuned_step = state_.step;
  state_.spare = {};
  no_spare_.clear();
  enter(Phase::kTrials);
  settled();
}

bool Tuning::waits_to_retune() const {
  return state_.step < state_.retuned_step + state_.retune_wait;
}

// The drift tells what its own plan takes now. Any other plan's time is taken to have changed as much, until it is
// measured again.
void Tuning::carry_over_drift(const Drift& drift) {
  const double ratio = drift.after_ms / drift.before_ms;
  for (Replaced& one : state_.replaced) one.measured = scaled(one.measured, ratio);
  Measured& measured = state_.incumbent_measured;
  if (!drift.plan_hash.empty() && drift.plan_hash != state_.incumbent.hash) {
    measured = scaled(measured, ratio);
    return;
  }
  const double sigma = measured.mean_ms > 0 ? measured.sigma_ms() / measured.mean_ms : 0.02;
  const double reach = 1.96 * std::max(sigma, 0.01) * drift.after_ms;
  measured = {drift.after_ms, drift.after_ms - reach, drift.after_ms + reach,
              static_cast<int>(drift.noticed_step - drift.since_step)};
  observe(state_.incumbent, measured);
}

}  // namespace trimtab::coordinator
