#include "tuning/trial/trials.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tuning/trial/comparison.hpp"
#include "tuning/trial/gains.hpp"

namespace trimtab::coordinator {
namespace {

constexpr Nanoseconds kNodeFallsSilent = std::chrono::seconds(30);

}  // namespace

// A step's peak is that of the plan that it ran. Taken as it comes: a plan that ran out of memory may end before all
// ranks have told of its step.
void Trials::take_peak(std::int32_t rank, const RankStep& step) {
  const std::string* const plan = view_.state.hash_of(step.epoch);
  if (plan == nullptr) return;
  auto& peaks = peak_bytes_[*plan];
  peaks.resize(static_cast<std::size_t>(view_.state.world_size()));
  peaks[rank] = std::max(peaks[rank], static_cast<double>(step.peak_bytes));
}

void Trials::take_passes(std::int32_t rank, const RankPasses& passes) {
  const std::string* const plan = view_.state.hash_of(passes.epoch);
  if (plan == nullptr || !view_.state.believes(passes.ms)) return;
  pass_times_.add(*plan, rank, view_.state.world_size(), passes.ms);
  if (passes.terms && view_.state.believes(passes.terms->total_ms())) {
    pass_times_.add_terms(*plan, rank, view_.state.world_size(), *passes.terms, passes.parts);
  }
}

void Trials::observe(const PlanText& plan, const Measured& measured) {
  std::vector<double> peak_bytes = peak_bytes_[plan.hash];
  // A peak of 0 says that the rank does not report one.
  if (std::find(peak_bytes.begin(), peak_bytes.end(), 0.0) != peak_bytes.end()) peak_bytes.clear();
  records_.observations.push_back({plan, measured.mean_ms, measured.sigma_ms(), std::move(peak_bytes), {}, 0, {}});
  add_passes(records_.observations.back());
}

void Trials::add_passes(MeasuredPlan& seen) {
  pass_times_.tell(seen);
  if (records_.trials.empty() || records_.trials.back().plan.hash != seen.plan.hash) return;
  // Launched anew, a few ranks may have told of a step or two by now.
  const auto told = [](const StepTerms& of_stage) { return of_stage.total_ms() > 0; };
  Trial& trial = records_.trials.back();
  const bool all_told = !seen.terms.empty() && std::ranges::all_of(seen.terms, told);
  if (!trial.measured_terms.empty() && !all_told) return;
  trial.measured_terms = seen.terms;
  if (!seen.parts.empty()) trial.measured_parts = seen.parts;
}

void Trials::update_observations() {
  for (MeasuredPlan& seen : records_.observations) add_passes(seen);
}

void Trials::add_convergence(std::int32_t trial) {
  const double seconds = static_cast<double>(view_.now.wall.count() - view_.state.begun_wall_ns) / 1e9;
  records_.convergence.push_back({seconds, view_.state.search.evaluations, trial,
                                  view_.state.incumbent_measured.mean_ms, view_.state.incumbent_predicted.mean_ms});
}

void Trials::forget_told() {
  peak_bytes_.clear();
  pass_times_.clear();
}

const Trial& Trials::begin(const PricedPlan& candidate) {
  Trial trial;
  trial.id = view_.state.trials_begun() + 1;
  trial.plan = candidate.plan;
  trial.predicted = candidate.predicted;
  trial.predicted_terms = candidate.terms;
  trial.begun_step = view_.state.step;
  records_.trials.push_back(std::move(trial));
  out_.changed = true;
  return records_.trials.back();
}

void Trials::set_state(TrialState state) {
  Trial& trial = records_.trials.back();
  // Later blocks warm up and measure again: for people that is one measurement.
  if (trial.state == state || (trial.state == TrialState::kMeasuring && state < TrialState::kMeasuring)) return;
  trial.state = state;
  out_.changed = true;
}

void Trials::changed_to_candidate(double ms, const ChangePhases& phases) {
  to_candidate_ = ToCandidate{ms, phases, {}};
  take_change(*to_candidate_);
  set_state(TrialState::kWarming);
}

// The longest counts.
void Trials::take_change(const ToCandidate& change) {
  Trial& trial = records_.trials.back();
  if (change.ms < trial.switch_ms) return;
  trial.switch_ms = change.ms;
  trial.change_phases = change.phases;
}

// A step of the candidate's block that follows a change to it: what is slow until warm-up has ended is part of what the
// change costs.
void Trials::add_candidate_step(bool warmup, double wall_ms, const Blocks* done) {
  if (!to_candidate_) return;
  if (warmup) to_candidate_->warm_up_ms.push_back(wall_ms);
  if (done == nullptr) return;
  ToCandidate change = *std::exchange(to_candidate_, std::nullopt);
  const double usual_ms = median(done->back());
  double excess_ms = 0;
  for (const double ms : change.warm_up_ms) excess_ms += ms - usual_ms;
  change.phases.warm_up_ms = std::max(0.0, excess_ms);
  change.ms += change.phases.warm_up_ms;
  take_change(change);
}

void Trials::fail(const Reason& reason, const std::string& message, bool blame_candidate) {
  Trial& trial = records_.trials.back();
  trial.state = TrialState::kFailed;
  trial.reason = reason;
  trial.message = message;
  forget_if_doubtful(reason, trial);
  out_.decide("end trial " + std::to_string(trial.id), reason.text() + ": " + message);
  if (const auto peaks = peak_bytes_.find(trial.plan.hash);
      peaks != peak_bytes_.end() && reason == FailureReason::kOutOfMemory) {
    trial.peak_bytes = *std::max_element(peaks->second.begin(), peaks->second.end());
  }
  out_.changed = true;
  const std::string so_far = trial.measured.steps > 0 ? "; until then its plan was " + words(trial.ratio) : "";
  out_.note("trial", "trial " + std::to_string(trial.id) + " failed (" + reason.text() + "): " + message + so_far);
  add_convergence(trial.id);
  if (blame_candidate) rule_out(trial.plan.hash, reason);
}

void Trials::fail_adopted(Trial& trial, const Reason& reason, const std::string& message) {
  trial.state = TrialState::kFailed;
  trial.reason = reason;
  trial.message = message;
  out_.changed_trials.push_back(trial);
  rule_out(trial.plan.hash, reason);
}

// For this job and later ones of its name. What hung may have waited for a link that was down: that counts until costs
// change, and in this job alone.
void Trials::rule_out(const std::string& plan_hash, const Reason& reason) {
  const bool may_be_a_nodes = reason == FailureReason::kHang || reason == FailureReason::kCrash;
  if (may_be_a_nodes) blamed_ = Blamed{plan_hash, view_.now.monotonic};
  if (reason == FailureReason::kHang) return records_.hung_hashes.push_back(plan_hash);
  records_.failed_hashes.push_back(plan_hash);
  out_.act(RememberFailure{plan_hash, reason});
}

// Ranks whose peers' node dies crash or hang long before the node has been silent for so long that it is lost.
void Trials::take_back_blame(const std::string& node) {
  if (!blamed_ || view_.now.monotonic - blamed_->at > kNodeFallsSilent) return;
  const std::string hash = std::exchange(blamed_, std::nullopt)->plan_hash;
  std::erase(records_.failed_hashes, hash);
  std::erase(records_.hung_hashes, hash);
  const auto failed = std::find_if(records_.trials.rbegin(), records_.trials.rend(),
                                   [&](const Trial& one) { return one.plan.hash == hash; });
  if (failed == records_.trials.rend() || failed->state != TrialState::kFailed) return;
  failed->reason = FailureReason::kAgentLost;
  out_.changed_trials.push_back(*failed);
  out_.note("trial", "plan " + hash + " may be tried again: node " + node + " was lost when it failed");
}

}  // namespace trimtab::coordinator
