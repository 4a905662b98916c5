// What looks agree has got slower, though steps take what they took, or so little longer that it is no drift of theirs.
// Another plan may be faster all the same: that is searched for beside the job, and tuning begins again where it may
// be. Looks may be faster than the steps' own detector, which explains more: it is given its time first.

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/search/choice.hpp"
#include "tuning/search/search_task.hpp"
#include "tuning/trial/budget.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

// What moves steps by 15 % is noticed within so many (change_point.hpp).
constexpr std::int64_t kStepsToTell = 40;

bool of_the_same(const Finding& a, const Finding& b) {
  return same_subject(a.probe, b.probe) && a.latency == b.latency;
}

}  // namespace

// What has changed since is told anew: a later change of the same is counted from there.
void Tuning::forget_slower(const std::vector<Finding>& changes) {
  std::erase_if(slower_, [&changes](const Finding& known) {
    return std::ranges::any_of(changes, [&known](const Finding& one) { return of_the_same(one, known); });
  });
}

// Nothing but links and devices' speed is in what plans are priced by.
bool Tuning::changes_prices(const Finding& one) const {
  return one.is_link() || !device_shares({one}, state_.cluster_json).empty();
}

void Tuning::take_slower(const std::vector<Finding>& slower) {
  const std::size_t known = slower_.size();
  std::ranges::copy_if(slower, std::back_inserter(slower_), [this](const Finding& one) { return changes_prices(one); });
  if (slower_.size() > known) {
    slower_is_new_ = true;
    slower_told_step_ = state_.step + kStepsToTell;
  }
  std::string when;
  if (slower_.size() == known || state_.job.mode == JobMode::kObserve || view_.held()) {
    when = "nothing is done unless steps take longer";
  } else {
    const std::int64_t due = state_.retuned_step + state_.retune_wait;
    when = "unless steps take longer, whether another plan would be faster is looked into from step " +
           std::to_string(std::max(due, slower_told_step_)) + " on";
    if (due > slower_told_step_) when += ": the job was tuned again a short while ago";
  }
  out_.note("drift", "looks at the hardware agree: " + to_text(slower) + "; " + when);
}

// Where a drift of the steps would be acted upon, and no other search is asked for.
bool Tuning::may_search_around_slower() const {
  const bool allowed = !view_.held() && state_.job.mode != JobMode::kObserve && !state_.stop_asked;
  const bool trains = state_.phase == Phase::kTraining && view_.is_calm() && running_.is(state_.incumbent);
  return allowed && trains && !searches_.searches_beside() && !has_open_drift() && !waits_to_retune() &&
         state_.step >= slower_told_step_ && enough_steps_for_trial(state_);
}

void Tuning::search_around_slower() {
  if (searches_.is_lost(SearchFor::kSlowerHardware)) {
    searches_.give_up(SearchFor::kSlowerHardware);
    slower_is_new_ = true;
  }
  if (slower_.empty() || !slower_is_new_ || !may_search_around_slower()) return;
  slower_is_new_ = false;
  out_.changed = true;
  searches_.ask(SearchFor::kSlowerHardware, out_);
}

// As the job would be tuned again: what earlier trials measured is a prior, and what they tried may be tried again.
SearchTask Tuning::slower_task() const {
  Tuning after(state_);
  after.accept(slower_);
  after.take_device_shares(slower_);
  after.state_.drifts = {drift_by_look(slower_)};
  after.state_.earlier_calibration_json = state_.calibration_json;
  after.state_.observations.clear();
  after.observe(state_.incumbent, state_.incumbent_measured);
  after.state_.begin_trials_anew();
  return coordinator::search_task(after.state_);
}

void Tuning::take_slower(const SearchReply& reply) {
  out_.changed = true;
  if (slower_.empty()) return;
  if (!may_search_around_slower()) {
    slower_is_new_ = true;
    return;
  }
  if (!reply.error.empty()) return leave_slower("the search failed: " + reply.error);
  const Candidate* const best = beside_incumbent(state_, reply);
  if (best == nullptr) {
    return leave_slower("no other plan may beat the incumbent by " +
                        format_number(state_.job.trials.minimum_gain * 100) + " %");
  }
  if (const std::string spent = overhead_spent(state_, *best); !spent.empty()) return leave_slower(spent);
  const Drift drift = drift_by_look(slower_);
  add_drift(drift);
  out_.note("drift", "looks at the hardware have found, though steps take what they took, " + drift.what +
                    ": another plan may take " + format_ms(optimistic_ms(state_, *best)) + " a step beside " +
                    format_ms(state_.incumbent_measured.mean_ms));
  const std::vector<Finding> slower = std::exchange(slower_, {});
  history_.begin_anew();
  accept(slower);
  take_device_shares(slower);
  retune();
}

void Tuning::leave_slower(const std::string& why) {
  out_.note("drift", "what looks have found slower changes nothing: " + why);
}

}  // namespace trimtab::coordinator
