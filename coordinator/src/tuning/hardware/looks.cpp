// Looks at the hardware that no changed step asks for: one beside the initial plan, which later ones are compared with,
// one under each plan that the job settles on, and one now and then while it trains. What got faster changes no step
// where the plan avoids it: that is what looks are for.

#include <algorithm>
#include <utility>

#include "tuning/hardware/hardware.hpp"
#include "tuning/trial/budget.hpp"

namespace trimtab::coordinator {
namespace {

constexpr int kLooksAtOnce = 2;  // one after the other, to be sure of what the last one found

void add_new(const std::vector<Probe>& now, std::vector<Probe>& known) {
  for (const Probe& one : now) {
    if (find(known, one) == nullptr) known.push_back(one);
  }
}

}  // namespace

void Hardware::look() {
  looked_at_ = view_.now.monotonic;
  look_since_ = looked_at_;
  look_ms_ = 0;
  out_.act(ProbeHardware{.since_step = view_.state.step, .plan_hash = view_.state.incumbent.hash});
}

void Hardware::take_first_look() {
  if (!known_.probed_plan_hash.empty() || std::exchange(first_looked_, true)) return;
  first_look_since_ = looked_at_ = view_.now.monotonic;
  out_.act(ProbeHardware{.since_step = view_.state.step,
                         .plan_hash = view_.state.incumbent.hash,
                         .urgent = true,
                         .computing = !known_.unprobed_nodes.empty(),
                         .takes = kProbeTakes});
}

bool Hardware::first_look_is_late() const {
  return first_look_since_ && view_.now.monotonic - *first_look_since_ > view_.state.job.trials.deadline;
}

Hardware::FirstLook Hardware::end_first_look() {
  first_look_since_.reset();
  return {std::exchange(search_again_, false), std::exchange(waiting_reply_, std::nullopt)};
}

void Hardware::tick() {
  const TuningState& state = view_.state;
  const bool trains = state.phase == Phase::kTraining && view_.is_calm() && view_.running.is(state.incumbent);
  const Nanoseconds period = state.job.trials.look_every;
  if (!trains || !view_.may_retune() || period.count() == 0 || look_since_) return;
  const bool due = looks_again_ > 0 || view_.now.monotonic - looked_at_ >= period;
  if (due && enough_overhead_for_look(state)) look();
}

void Hardware::account_look(const JobStep& step) {
  const double usual_ms = view_.state.incumbent_measured.mean_ms;
  const bool counts = look_since_ && view_.is_calm() && view_.state.believes(step.wall_ms) && usual_ms > 0;
  if (counts) look_ms_ += step.wall_ms - usual_ms;
}

void Hardware::end_look() {
  if (!std::exchange(look_since_, std::nullopt)) return;
  known_.looks_ms += std::max(0.0, look_ms_);
  known_.dearest_look_ms = std::max(known_.dearest_look_ms, look_ms_);
}

void Hardware::take_faults(const std::vector<LinkFault>& told) {
  const std::vector<LinkFault> fresh = coordinator::take_faults(told, view_.state.step, known_.link_faults);
  if (fresh.empty()) return;
  out_.note("drift", "a link's own counters call it worse than it was, " + confidence_text(confidence_of(fresh)) +
                         " sure: " + to_text(fresh));
}

std::vector<LinkFault> Hardware::doubt_links(std::int64_t since_step) {
  std::vector<LinkFault> doubtful;
  for (LinkFault& one : known_.link_faults) {
    if (one.step < since_step) continue;
    one.doubts = true;
    doubtful.push_back(one);
  }
  return doubtful;
}

bool Hardware::take_look(const HardwareProbed& probed) {
  end_look();
  if (probed.failed()) return false;
  out_.changed = true;
  take_faults(probed.faults);
  const std::string plan = probed.plan_hash.empty() ? view_.state.incumbent.hash : probed.plan_hash;
  const bool is_new_plan = std::exchange(known_.probed_plan_hash, plan) != plan;
  search_again_ = price_other_hardware(probed.probes);
  take_baseline(probed.probes);
  is_new_plan ? history_.begin_anew(probed.probes) : history_.add(probed.probes);
  if (is_new_plan) {
    out_.note("drift", std::to_string(probed.probes.size()) + " devices and links were probed under this plan");
  }
  return true;
}

// Costs are of the hardware as it was when they were measured. What is probed first stands for that, unless steps have
// changed since the plan was measured that tuning began from: then costs stay as they were measured.
void Hardware::take_baseline(const std::vector<Probe>& probes) {
  const bool is_late = std::ranges::any_of(
      known_.drifts, [this](const Drift& one) { return one.noticed_step > view_.state.measured_step && !one.by_look; });
  const bool is_first = known_.first_probes.empty();
  if (!is_late) add_new(probes, known_.first_probes);
  add_new(probes, known_.last_probes);
  if (is_late || !is_first) return;
  known_.first_probed_step = view_.state.step;
  out_.act(RememberProbes{to_json(known_.first_probes)});
}

// Faster than is known, of a link or of a device that the search takes to be slow.
bool Hardware::is_recovery(const Finding& one) const {
  const Probe* const known = find(known_.last_probes, one.probe);
  if (known == nullptr || explaining(diagnose({*known}, {one.probe}), false).empty()) return false;
  if (one.is_link()) return true;
  return known_.slow_devices.contains(one.probe.device) && !device_shares({one}, view_.state.cluster).empty();
}

bool Hardware::judge_looks() {
  if (!view_.is_calm() || view_.state.phase != Phase::kTraining) return false;
  const std::vector<Finding> changes = history_.take_changes(known_.last_probes);
  looks_again_ = history_.may_be_faster() && looks_again_ < kLooksAtOnce ? looks_again_ + 1 : 0;
  forget_slower(changes);
  if (changes.empty() || known_.has_open_drift()) return false;
  std::vector<Finding> recovered = changes;
  std::erase_if(recovered, [this](const Finding& one) { return !is_recovery(one); });
  if (!recovered.empty()) return take_recovery(recovered);
  const std::vector<Finding> slower = explaining(changes, true);
  if (!slower.empty()) take_slower(slower);
  return false;
}

// The same path as where steps have changed: told, corrected, tuned again.
bool Hardware::take_recovery(const std::vector<Finding>& recovered) {
  const Drift drift = drift_by_look(recovered, view_.state);
  add_drift(drift);
  out_.note("drift", "a look at the hardware finds, though steps take what they took, " + drift.what);
  if (known_.waits_to_retune(view_.state.step)) {
    note_wait();
    return false;
  }
  history_.begin_anew();
  known_.accept(recovered);
  known_.take_device_shares(recovered, view_.state.cluster);
  return true;
}

void Hardware::begin_anew() {
  known_.forget_probes([](const Probe& one) { return one.device >= 0; });
  slower_.clear();
  known_.link_faults.clear();  // tell devices' numbers
  for (Drift& drift : known_.drifts) drift.handled = true;
  known_.forget_kept();
  first_looked_ = false;
  change_point_.reset();
}

}  // namespace trimtab::coordinator
