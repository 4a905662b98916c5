// Does the incumbent still take what it took? If not, what has changed.

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/hardware/hardware.hpp"

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
bool was_kept_there(const std::vector<Drift>& drifts) {
  const Drift& drift = drifts.back();
  double least = 0;
  double most = 0;
  for (auto one = std::next(drifts.rbegin()); one != drifts.rend(); ++one) {
    if (one->plan_hash != drift.plan_hash || !one->what.empty()) break;
    if (!one->kept) continue;
    const auto [low, high] = std::minmax(one->before_ms, one->after_ms);
    least = least > 0 ? std::min(least, low) : low;
    most = std::max(most, high);
  }
  return least > 0 && drift.after_ms >= least * (1 - kSameLevel) && drift.after_ms <= most * (1 + kSameLevel);
}

// "device 0 of node n0 … at 83 % of its speed: 62.0 %".
std::string doubt_text(const std::vector<Finding>& doubtful) {
  const std::vector<Finding> most = {doubtful.front()};
  const std::string others = doubtful.size() > 1 ? ", and " + std::to_string(doubtful.size() - 1) + " more" : "";
  return "at least " + confidence_text(kNamedFrom) + " is needed): " + to_text(most) + ", " +
         confidence_text(doubtful.front().confidence) + " sure" + others;
}

std::string as_what(const Remeasured& again) {
  if (again.costs.empty()) return "they are taken as probed";
  return std::to_string(again.costs.size()) + " are taken as ranks have measured them again, the rest as probed";
}

}  // namespace

std::optional<StepChange> Hardware::add_step(const JobStep& step) {
  if (!change_point_) {
    ChangePointRules rules;
    rules.least_lasting_ms = milliseconds(view_.state.job.trials.lasting);
    change_point_.emplace(rules);
  }
  const auto change = change_point_->add(step.step, step.wall_ms);
  if (change) change_point_.reset();
  return change;
}

void Hardware::change_plan(double ratio, double low, double high) {
  if (change_point_) change_point_->change_plan(ratio, low, high);
}

Drift Hardware::notice(const StepChange& change, std::int64_t step, std::string during) {
  Drift drift;
  drift.plan_hash = view_.state.incumbent.hash;
  drift.since_step = change.since_step;
  drift.noticed_step = step;
  drift.before_ms = change.before_ms;
  drift.after_ms = change.after_ms;
  drift.during = std::move(during);
  add_drift(drift);
  out_.note("drift", "since step " + std::to_string(drift.since_step) + " a step of the incumbent takes " +
                         format_ms(drift.after_ms) + " beside " + format_ms(drift.before_ms) +
                         " before: " + format_fixed(drift.after_ms / drift.before_ms, 2) + " times as long" +
                         (drift.during.empty() ? "" : ", noticed in " + drift.during));
  return drift;
}

void Hardware::add_drift(const Drift& drift) {
  known_.drifts.push_back(drift);
  out_.changed = true;
  if (known_.drifts.size() <= kDrifts) return;
  const auto told = std::ranges::find_if(known_.drifts, [](const Drift& one) { return one.trials_before < 0; });
  known_.drifts.erase(std::next(told) == known_.drifts.end() ? known_.drifts.begin() : told);
}

bool Hardware::is_due() const {
  return view_.may_retune() && known_.has_open_drift() && !known_.waits_to_retune(view_.state.step);
}

void Hardware::note_wait() {
  out_.note("drift", "the job is not tuned again for it before step " +
                         std::to_string(known_.retuned_step + known_.retune_wait) + ": it was a short while ago");
}

void Hardware::probe() {
  look_since_.reset();
  out_.changed = true;
  out_.act(ProbeHardware{.since_step = known_.drifts.back().since_step,
                         .plan_hash = view_.state.incumbent.hash,
                         .urgent = true,
                         .takes = kProbeTakes});
}

bool Hardware::explained(const HardwareProbed& probed) {
  look_since_.reset();
  if (probed.failed()) {
    known_.forget_kept();
    return not_explained(probed.error);
  }
  Drift& drift = known_.drifts.back();
  out_.changed = true;
  const bool priced = price_other_hardware(probed.probes);
  forget_late_baseline(drift);
  const bool comparable = !known_.last_probes.empty();
  const std::vector<Finding> doubtful =
      explaining(not_sure(known_.last_probes, probed.probes), drift.after_ms > drift.before_ms);
  std::vector<Finding> findings = diagnose(known_.last_probes, probed.probes);
  std::erase_if(findings, [this](const Finding& one) { return history_.is_usual(one); });
  const bool slower = drift.after_ms > drift.before_ms;
  take_faults(probed.faults);
  const std::vector<LinkFault> faults = comparable && slower ? doubt_links(drift.since_step) : std::vector<LinkFault>();
  // What prices plans is what it was, and no look has said otherwise.
  const bool as_known = comparable && !priced && findings.empty() && slower_.empty() && faults.empty();
  if (!as_known) known_.forget_kept();
  history_.begin_anew(probed.probes);
  slower_.clear();
  known_.last_probes = probed.probes;
  known_.probed_plan_hash = probed.plan_hash.empty() ? view_.state.incumbent.hash : probed.plan_hash;
  if (!comparable) return not_explained("nothing was probed before it");
  known_.take_device_shares(findings, view_.state.cluster);
  const std::vector<Finding> causes = explaining(findings, slower);
  if (causes.empty() && faults.empty()) {
    std::string why =
        std::string("no device and no link is clearly ") + (slower ? "slower" : "faster") + " than before";
    if (!doubtful.empty()) why += "; not sure enough to be named (" + doubt_text(doubtful);
    return !goes_on_as_kept(why) && not_explained(why);
  }
  if (!causes.empty()) name_causes(causes, drift);
  name_causes(faults, drift);
  out_.note("drift", "what has changed, " + confidence_text(drift.confidence) + " sure: " + drift.what);
  return true;
}

bool Hardware::not_explained(const std::string& why) {
  if (!known_.drifts.back().by_look) {
    out_.note("drift", "what has changed is not known: " + why);
    return true;
  }
  leave_drift("what a look at the hardware had found is no more: " + why);
  return false;
}

// Where nothing is to be gained by tuning again.
bool Hardware::goes_on_as_kept(const std::string& why) {
  const Drift& drift = known_.drifts.back();
  const TuningState& state = view_.state;
  const bool may = state.phase == Phase::kTraining && state.job.mode == JobMode::kAuto && !drift.by_look &&
                   drift.plan_hash == state.incumbent.hash;
  if (!may || !was_kept_there(known_.drifts)) return false;
  leave_drift("what has changed is not known: " + why +
              ". Steps took as long when the job was tuned again before and kept its plan: it goes on with it");
  return true;
}

void Hardware::leave_drift(const std::string& why) {
  known_.drifts.back().handled = true;
  out_.changed = true;
  out_.note("drift", why);
}

// What this job probed first was probed when the change had begun: it is no measure of anything before.
void Hardware::forget_late_baseline(const Drift& drift) {
  if (known_.first_probed_step <= drift.since_step) return;
  out_.note("drift", "the hardware was probed first at step " + std::to_string(known_.first_probed_step) +
                         ", when the change had begun: costs stay as they were measured, and trials correct them");
  known_.first_probes.clear();
  known_.last_probes.clear();
  known_.first_probed_step = 0;
  out_.act(RememberProbes{to_json(known_.first_probes)});
}

void Hardware::begin_retuning() {
  const std::int64_t longest = std::max<std::int64_t>(view_.state.job.steps / kLongestWaitShare, 1);
  known_.retune_wait = std::min(known_.retune_wait > 0 ? 2 * known_.retune_wait : kFirstWait, longest);
  known_.retuned_step = view_.state.step;
  Drift& drift = known_.drifts.back();
  // Also of what is not sure enough to be named: prices follow the probes all the same.
  const bool is_named = drift.links || drift.devices || std::ranges::any_of(known_.link_faults, &LinkFault::doubts);
  const bool is_priced = !known_.slow_devices.empty() || !link_changes(known_.first_probes, known_.last_probes).empty();
  drift.doubts = known_.measures_first = (is_named || is_priced) && view_.state.job.trials.measure_again.count() > 0;
}

// Whose operators take what they took was blamed for something else.
void Hardware::take_measured(const Remeasured& again) {
  known_.measures_first = false;
  known_.measurings_ms += again.took_ms;
  known_.drifts.back().again = again;
  out_.changed = true;
  if (again.doubtful == 0) return;
  if (again.costs.empty()) {
    out_.decide("search with doubtful costs",
                std::to_string(again.doubtful) + " costs are doubtful and were not measured again: " + again.left);
    return out_.note("drift",
                     std::to_string(again.doubtful) + " costs are doubtful and were not measured again: " + again.left);
  }
  out_.note("drift", describe(again));
  for (const auto& [device, speed] : as_measured(known_.slow_devices, again.costs)) {
    known_.take_device_speed(device, speed);
    if (known_.slow_devices.contains(device)) continue;
    out_.note("drift", "device " + std::to_string(device) +
                           " is not slow: its operators take what they took before, and it is not priced as slow");
  }
}

void Hardware::note_stale(const SearchReply& reply) {
  const bool first = !known_.drifts.empty() && known_.drifts.back().handled && known_.drifts.back().stale.empty();
  if (!first || view_.state.observations.size() > 1) return;
  const LinkChanges links = link_changes(known_.first_probes, known_.last_probes);
  std::string text = to_text(links);
  const auto slowed = slowed_devices();
  for (const auto& [device, share] : slowed) {
    text += (text.empty() ? "" : ", ") + std::string("device ") + std::to_string(device) + " at " +
            format_percent(share) + " of its speed";
  }
  if (text.empty()) return;
  Drift& drift = known_.drifts.back();
  if (reply.costs_stale == 0 && slowed.empty() && links.levels.empty()) {
    drift.stale = "what goes over these links alone is taken as probed (" + text +
                  ") beside what was measured over their level, and all costs as they are";
  } else if (reply.costs_stale == 0 && slowed.empty()) {
    drift.stale = "no measured cost is of links that have changed; what is estimated of them is taken as probed (" +
                  text + "), and the others as they are";
  } else {
    drift.stale = "stale are " + std::to_string(reply.costs_stale) + " of " + std::to_string(reply.costs_known) +
                  " costs, of links" + (slowed.empty() ? "" : ", and all operators' on slow devices") +
                  "; until trials measure, " + as_what(drift.again) + " (" + text + "), and the others as they are";
  }
  out_.changed = true;
  out_.note("drift", drift.stale);
}

}  // namespace trimtab::coordinator
