// What looks agree has got slower, though steps take what they took, or so little longer that it is no drift of theirs.
// Another plan may be faster all the same: that is searched for beside the job, and tuning begins again where it may
// be. Looks may be faster than the steps' own detector, which explains more: it is given its time first.

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/hardware/hardware.hpp"
#include "tuning/search/choice.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/trial/budget.hpp"

namespace trimtab::coordinator {
namespace {

// What moves steps by 15 % is noticed within so many, and in half as much again as it must last (change_point.hpp).
constexpr std::int64_t kStepsToTell = 40;
constexpr double kTimesLasting = 1.5;

std::int64_t steps_to_tell(const TuningState& state) {
  const double step_ms = std::max(state.incumbent_measured.mean_ms, 1.0);
  const double lasting = kTimesLasting * milliseconds(state.job.trials.lasting) / step_ms;
  return std::max(kStepsToTell, static_cast<std::int64_t>(lasting));
}

bool of_the_same(const Finding& a, const Finding& b) {
  return same_subject(a.probe, b.probe) && a.latency == b.latency;
}

}  // namespace

// What has changed since is told anew: a later change of the same is counted from there.
void Hardware::forget_slower(const std::vector<Finding>& changes) {
  std::erase_if(slower_, [&changes](const Finding& known) {
    return std::ranges::any_of(changes, [&known](const Finding& one) { return of_the_same(one, known); });
  });
}

void Hardware::take_slower(const std::vector<Finding>& slower) {
  // Nothing but links and devices' speed is in what plans are priced by.
  const auto changes_prices = [this](const Finding& one) {
    return one.is_link() || !device_shares({one}, view_.state.cluster).empty();
  };
  const std::size_t known = slower_.size();
  std::ranges::copy_if(slower, std::back_inserter(slower_), changes_prices);
  if (slower_.size() > known) {
    slower_is_new_ = true;
    slower_told_step_ = view_.state.step + steps_to_tell(view_.state);
  }
  std::string when;
  if (slower_.size() == known || view_.state.job.mode == JobMode::kObserve || view_.held()) {
    when = "nothing is done unless steps take longer";
  } else {
    const std::int64_t due = known_.retuned_step + known_.retune_wait;
    when = "unless steps take longer, whether another plan would be faster is looked into from step " +
           std::to_string(std::max(due, slower_told_step_)) + " on";
    if (due > slower_told_step_) when += ": the job was tuned again a short while ago";
  }
  out_.note("drift", "looks at the hardware agree: " + to_text(slower) + "; " + when);
}

// Where a drift of the steps would be acted upon, and no other search is asked for.
bool Hardware::may_search_around_slower() const {
  const TuningState& state = view_.state;
  const bool trains = state.phase == Phase::kTraining && view_.is_calm() && view_.running.is(state.incumbent);
  return view_.may_retune() && trains && !searches_.searches_beside() && !known_.has_open_drift() &&
         !known_.waits_to_retune(state.step) && state.step >= slower_told_step_ && enough_steps_for_trial(state);
}

void Hardware::search_around_slower() {
  if (searches_.take_lost(SearchFor::kSlowerHardware)) slower_is_new_ = true;
  if (slower_.empty() || !slower_is_new_ || !may_search_around_slower()) return;
  slower_is_new_ = false;
  out_.changed = true;
  searches_.ask(SearchFor::kSlowerHardware, out_);
}

SearchTask Hardware::task_around_slower() const {
  TuningState after = view_.state;
  after.hardware.accept(slower_);
  after.hardware.take_device_shares(slower_, after.cluster);
  after.hardware.drifts = {drift_by_look(slower_, view_.state)};
  after.earlier_calibration_json = after.calibration_json;
  const Measured& measured = after.incumbent_measured;
  after.observations = {{after.incumbent, measured.mean_ms, measured.sigma_ms(), {}, {}, 0, {}}};
  after.begin_trials_anew();
  return search_task(after);
}

bool Hardware::take_slower(const SearchReply& reply) {
  out_.changed = true;
  if (slower_.empty()) return false;
  if (!may_search_around_slower()) {
    slower_is_new_ = true;
    return false;
  }
  const TuningState& state = view_.state;
  const PricedPlan* const best = beside_incumbent(state, reply);
  std::string none;
  if (!reply.error.empty()) {
    none = "the search failed: " + reply.error;
  } else if (best == nullptr) {
    none = "no other plan may beat the incumbent by " + format_number(state.job.trials.minimum_gain * 100) + " %";
  } else {
    none = overhead_spent(state, *best);
  }
  if (!none.empty()) {
    out_.note("drift", "what looks have found slower changes nothing: " + none);
    return false;
  }
  Drift drift = drift_by_look(slower_, state);
  const std::int64_t since = known_.drifts.empty() ? 0 : known_.drifts.back().noticed_step;
  name_causes(doubt_links(std::max(since, known_.first_probed_step) + 1), drift);
  add_drift(drift);
  out_.note("drift", "looks at the hardware have found, though steps take what they took, " + drift.what +
                         ": another plan may take " + format_ms(optimistic_ms(state, *best)) + " a step beside " +
                         format_ms(state.incumbent_measured.mean_ms));
  const std::vector<Finding> slower = std::exchange(slower_, {});
  history_.begin_anew();
  known_.accept(slower);
  known_.take_device_shares(slower, state.cluster);
  return true;
}

}  // namespace trimtab::coordinator
