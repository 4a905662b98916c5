// Looks at the hardware that no changed step asks for: one beside the initial plan, which later ones are compared with,
// one under each plan that the job settles on, and one now and then while it trains. What got faster changes no step
// where the plan avoids it: that is what looks are for.

#include <algorithm>
#include <utility>

#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

constexpr int kLooksAtOnce = 2;       // one after the other, to be sure of what the last one found
constexpr double kAsFast = 0.95;      // of a device's speed

const Probe* find(const std::vector<Probe>& probes, const Probe& like) {
  const auto found = std::ranges::find_if(probes, [&](const Probe& one) { return same_subject(one, like); });
  return found == probes.end() ? nullptr : &*found;
}

void add_new(const std::vector<Probe>& now, std::vector<Probe>& known) {
  for (const Probe& one : now) {
    if (find(known, one) == nullptr) known.push_back(one);
  }
}

}  // namespace

void Tuning::look_at_hardware() {
  looked_at_ = now_.monotonic;
  look_since_ = looked_at_;
  look_ms_ = 0;
  out_.act(ProbeHardware{.since_step = state_.step, .plan_hash = state_.incumbent.hash});
}

// Beside the first search for a trial, which hides the time that it takes.
void Tuning::take_first_look() {
  if (!state_.probed_plan_hash.empty() || std::exchange(first_looked_, true)) return;
  first_look_since_ = looked_at_ = now_.monotonic;
  out_.act(ProbeHardware{.since_step = state_.step,
                    .plan_hash = state_.incumbent.hash,
                    .urgent = true,
                    .computing = !state_.unprobed_nodes.empty(),
                    .takes = kProbeTakes});
}

// No trial begins while the first look takes place: each would disturb the other.
void Tuning::searched(const SearchReply& reply) {
  if (!first_look_since_) return decide(reply);
  waiting_reply_ = reply;
}

void Tuning::first_look_over() {
  first_look_since_.reset();
  const auto reply = std::exchange(waiting_reply_, std::nullopt);
  const bool again = std::exchange(search_again_, false);
  if (state_.phase != Phase::kTrials || state_.doing != Doing::kSearching) return;
  if (again) return request_search();
  if (reply) decide(*reply);
}

void Tuning::tick_looks() {
  if (first_look_since_ && now_.monotonic - *first_look_since_ > state_.job.trials.deadline) first_look_over();
  const bool trains = state_.phase == Phase::kTraining && view_.is_calm() && running_.is(state_.incumbent);
  const bool allowed = state_.job.mode != JobMode::kObserve && !state_.stop_asked && !view_.held();
  const Nanoseconds period = state_.job.trials.look_every;
  if (!trains || !allowed || period.count() == 0 || look_since_) return;
  const bool due = looks_again_ > 0 || now_.monotonic - looked_at_ >= period;
  if (due && enough_overhead_for_look(state_)) look_at_hardware();
}

void Tuning::account_look(const JobStep& step) {
  const double usual_ms = state_.incumbent_measured.mean_ms;
  if (look_since_ && view_.is_calm() && state_.believes(step.wall_ms) && usual_ms > 0) look_ms_ += step.wall_ms - usual_ms;
}

void Tuning::end_look() {
  if (!std::exchange(look_since_, std::nullopt)) return;
  state_.looks_ms += std::max(0.0, look_ms_);
  state_.dearest_look_ms = std::max(state_.dearest_look_ms, look_ms_);
}

void Tuning::on(const HardwareProbed& probed) {
  if (state_.doing == Doing::kProbing) {
    look_since_.reset();
    return explained(probed);
  }
  end_look();
  if (!probed.error.empty() || probed.probes.empty()) return first_look_over();
  out_.changed = true;
  const std::string plan = probed.plan_hash.empty() ? state_.incumbent.hash : probed.plan_hash;
  const bool is_new_plan = std::exchange(state_.probed_plan_hash, plan) != plan;
  search_again_ = price_other_hardware(probed.probes);
  take_baseline(probed.probes);
  is_new_plan ? history_.begin_anew(probed.probes) : history_.add(probed.probes);
  if (is_new_plan) {
    out_.note("drift", std::to_string(probed.probes.size()) + " devices and links were probed under this plan");
  }
  first_look_since_ ? first_look_over() : looked();
}

// Costs are of the hardware as it was when they were measured. What is probed first stands for that, unless steps have
// changed since the plan was measured that tuning began from: then costs stay as they were measured.
void Tuning::take_baseline(const std::vector<Probe>& probes) {
  const bool is_late = std::ranges::any_of(
      state_.drifts, [this](const Drift& one) { return one.noticed_step > state_.measured_step && !one.by_look; });
  const bool is_first = state_.first_probes.empty();
  if (!is_late) add_new(probes, state_.first_probes);
  add_new(probes, state_.last_probes);
  if (is_late || !is_first) return;
  state_.first_probed_step = state_.step;
  out_.act(RememberProbes{to_json(state_.first_probes)});
}

// What this job probed first was probed when the change had begun: it is no measure of anything before.
void Tuning::forget_late_baseline(const Drift& drift) {
  if (state_.first_probed_step <= drift.since_step) return;
  out_.note("drift", "the hardware was probed first at step " + std::to_string(state_.first_probed_step) +
                    ", when the change had begun: costs stay as they were measured, and trials correct them");
  state_.first_probes.clear();
  state_.last_probes.clear();
  state_.first_probed_step = 0;
  out_.act(RememberProbes{to_json(state_.first_probes)});
}

// From here on these are what is known.
void Tuning::accept(const std::vector<Finding>& findings) {
  for (const Finding& one : findings) {
    for (Probe& known : state_.last_probes) {
      if (same_subject(one.probe, known)) known = one.probe;
    }
  }
}

// Faster than is known, of a link or of a device that the search takes to be slow.
bool Tuning::is_recovery(const Finding& one) const {
  const Probe* const known = find(state_.last_probes, one.probe);
  if (known == nullptr || explaining(diagnose({*known}, {one.probe}), false).empty()) return false;
  if (one.is_link()) return true;
  return state_.slow_devices.contains(one.probe.device) && !device_shares({one}, state_.cluster_json).empty();
}

void Tuning::looked() {
  if (!view_.is_calm() || state_.phase != Phase::kTraining) return;
  const std::vector<Finding> changes = history_.take_changes(state_.last_probes);
  looks_again_ = history_.may_be_faster() && looks_again_ < kLooksAtOnce ? looks_again_ + 1 : 0;
  forget_slower(changes);
  if (changes.empty() || has_open_drift()) return;
  std::vector<Finding> recovered = changes;
  std::erase_if(recovered, [this](const Finding& one) { return !is_recovery(one); });
  if (!recovered.empty()) return take_recovery(recovered);
  const std::vector<Finding> slower = explaining(changes, true);
  if (!slower.empty()) take_slower(slower);
}

Drift Tuning::drift_by_look(const std::vector<Finding>& findings) const {
  Drift drift;
  drift.plan_hash = state_.incumbent.hash;
  drift.since_step = drift.noticed_step = state_.step;
  drift.before_ms = drift.after_ms = state_.incumbent_measured.mean_ms;
  drift.by_look = true;
  name_causes(findings, drift);
  return drift;
}

// The same path as where steps have changed: told, corrected, tuned again.
void Tuning::take_recovery(const std::vector<Finding>& recovered) {
  const Drift drift = drift_by_look(recovered);
  add_drift(drift);
  out_.note("drift", "a look at the hardware finds, though steps take what they took, " + drift.what);
  if (waits_to_retune()) return note_wait();
  history_.begin_anew();
  accept(recovered);
  take_device_shares(recovered);
  retune();
}

// A share of a share: findings compare with the last probes, and these with those before.
void Tuning::take_device_shares(const std::vector<Finding>& findings) {
  for (const auto& [device, share] : device_shares(findings, state_.cluster_json)) {
    const auto known = state_.slow_devices.find(device);
    take_device_speed(device, known == state_.slow_devices.end() ? share : known->second * share);
  }
}

void Tuning::take_device_speed(std::int32_t device, double share) {
  state_.slow_devices[device] = share;
  if (share >= kAsFast) state_.slow_devices.erase(device);
}

}  // namespace trimtab::coordinator
