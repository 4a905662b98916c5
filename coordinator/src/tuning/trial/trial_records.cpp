#include "tuning/trial/trial_records.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

std::set<std::string> plans_to_go_back_to(const TuningState& state) {
  std::set<std::string> hashes = {state.incumbent.hash};
  for (const Replaced& one : state.replaced) hashes.insert(one.plan.hash);
  return hashes;
}

std::int32_t best_measured(const TuningState& state) {
  const Trial* best = nullptr;
  for (const Trial& one : state.trials) {
    const bool counts = one.measured.steps > 0 && one.id > state.trials_before_drift;
    if (counts && (best == nullptr || one.measured.mean_ms < best->measured.mean_ms)) best = &one;
  }
  return best == nullptr ? 0 : best->id;
}

// Ids of the earlier trials that stay.
std::set<std::int32_t> kept_of(const TuningState& state, std::size_t earlier) {
  const std::set<std::string> adopted = plans_to_go_back_to(state);
  std::set<std::int32_t> kept = {best_measured(state)};
  std::size_t out_of_memory = 0;
  for (std::size_t i = earlier; i-- > 0;) {
    const Trial& one = state.trials[i];
    if (one.state == TrialState::kAdopted && adopted.contains(one.plan.hash)) kept.insert(one.id);
    const bool teaches = one.reason == FailureReason::kOutOfMemory && one.id > state.trials_before_resize;
    if (teaches && ++out_of_memory <= kOutOfMemoryKept) kept.insert(one.id);
  }
  return kept;
}

void add(ForgottenTrials& forgotten, const Trial& trial, std::int32_t before_drift) {
  if (trial.state == TrialState::kAdopted) ++forgotten.adopted;
  if (trial.state == TrialState::kRejected) ++forgotten.rejected;
  if (trial.state == TrialState::kFailed) ++forgotten.failed;
  forgotten.overhead_ms += trial.overhead_ms();
  if (trial.id > before_drift) forgotten.tried.push_back(trial.plan.hash);
}

template <typename Element>
void drop_oldest(std::vector<Element>& list, std::size_t kept) {
  if (list.size() > kept) list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(kept));
}

void drop_old_observations(TuningState& state) {
  std::size_t surplus = state.observations.size() - std::min(state.observations.size(), kObservationsKept);
  std::erase_if(state.observations, [&](const MeasuredPlan& one) {
    const bool needed = one.plan.hash == state.initial.hash || one.plan.hash == state.incumbent.hash;
    return !needed && surplus > 0 && surplus-- > 0;
  });
}

// A curve of half as many points is the same curve.
void thin(std::vector<Convergence>& points) {
  if (points.size() <= kConvergenceKept) return;
  std::size_t index = 0;
  const std::size_t last = points.size() - 1;
  std::erase_if(points, [&](const Convergence&) {
    const std::size_t here = index++;
    return here % 2 == 1 && here != last;
  });
}

}  // namespace

double Trial::overhead_ms() const {
  return changes_ms + std::max(0.0, excess_ms);
}

bool TrialRecords::has_trial() const {
  return !trials.empty() && !has_ended(trials.back().state);
}

void TrialRecords::begin_trials_anew(std::int64_t since_step) {
  for (const Trial& trial : trials) {
    if (trial.begun_step < since_step) trials_before_drift = std::max(trials_before_drift, trial.id);
  }
  forgotten.tried.clear();
  hung_hashes.clear();
}

bool TrialRecords::was_tried(const std::string& plan_hash) const {
  if (std::find(forgotten.tried.begin(), forgotten.tried.end(), plan_hash) != forgotten.tried.end()) return true;
  int blameless = 0;
  for (const Trial& trial : trials) {
    if (trial.id <= trials_before_drift || trial.plan.hash != plan_hash) continue;
    const bool blamed = trial.state != TrialState::kFailed || !is_blameless(trial.reason.kind());
    if (blamed || ++blameless > 1) return true;
  }
  return false;
}

bool TrialRecords::has_failed_in_trial(const std::string& plan_hash) const {
  return std::ranges::any_of(trials, [&](const Trial& trial) {
    const bool failed = trial.state == TrialState::kFailed && !(trial.reason == FailureReason::kWithdrawn);
    return failed && trial.id > trials_before_drift && trial.plan.hash == plan_hash;
  });
}

std::vector<EarlierTrial> without_kept(std::vector<EarlierTrial> earlier, const TrialRecords& records) {
  std::set<std::int32_t> kept;
  for (const Trial& trial : records.trials) kept.insert(trial.id);
  std::erase_if(earlier, [&](const EarlierTrial& one) { return kept.contains(one.id); });
  return earlier;
}

std::vector<Trial> forget_old_trials(TuningState& state) {
  drop_oldest(state.passed_over, kPassedOverKept);
  drop_oldest(state.failed_hashes, kFailedHashesKept);
  drop_oldest(state.hung_hashes, kFailedHashesKept);
  drop_old_observations(state);
  thin(state.convergence);
  std::vector<Trial> forgotten;
  if (state.trials.size() <= kTrialsKept) return forgotten;
  const std::size_t earlier = state.trials.size() - kTrialsKept;
  const std::set<std::int32_t> kept = kept_of(state, earlier);
  const std::int32_t first_of_latest = state.trials[earlier].id;
  std::vector<Trial> remembered;
  for (Trial& one : state.trials) {
    const bool stays = one.id >= first_of_latest || kept.contains(one.id);
    if (!stays) add(state.forgotten, one, state.trials_before_drift);
    if (!stays) one.plan.json.clear();
    (stays ? remembered : forgotten).push_back(std::move(one));
  }
  state.trials = std::move(remembered);
  return forgotten;
}

}  // namespace trimtab::coordinator
