// Which plan is tried next, if any.

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/change/settling.hpp"
#include "tuning/tuning.hpp"

namespace trimtab::coordinator {
namespace {

double relative_error(const Measured& measured) {
  return measured.mean_ms > 0 ? measured.sigma_ms() / measured.mean_ms : 0;
}

// The one-sided 95 % quantile of the normal distribution.
constexpr double kOptimism = 1.645;

}  // namespace

// What the candidate may take if it is lucky: beside the incumbent's measured time where the two predictions' errors
// have been told apart, else the low end of its own interval.
double Tuning::optimistic_ms(const Candidate& candidate) const {
  if (candidate.gain_sigma < 0 || state_.incumbent_measured.mean_ms <= 0) return candidate.predicted.low_ms;
  return state_.incumbent_measured.mean_ms * std::exp(-candidate.log_gain - kOptimism * candidate.gain_sigma);
}

// Why no more may be spent on trials; empty = the candidate's, if it costs as much as those before and at least one
// pair of blocks, is within the share, also of the job's time when the candidate is adopted.
std::string Tuning::overhead_spent(const Candidate& candidate) const {
  const double used = state_.overhead_ms();
  const double average = state_.trials.empty() ? 0 : used / state_.trials_begun();
  const double next = std::max(average, least_trial_ms(candidate));
  const double allowed =
      state_.allowed_overhead_ms(std::min(state_.incumbent_measured.mean_ms, candidate.predicted.mean_ms));
  if (used + next < allowed) return "";
  return "trials have cost " + format_ms(used) + ", the next may cost " + format_ms(next) + ", and all may cost " +
         format_ms(allowed) + ", " + format_percent(state_.job.trials.overhead) +
         " of the job's time (trials.overhead)";
}

bool Tuning::enough_steps_for_trial() const {
  const TrialSettings& settings = state_.job.trials;
  const std::int64_t block = settings.warmup_steps + settings.measure_steps;
  // Only a plan's first warm-up is long: later ones find it compiled.
  const std::int64_t unsettled = most_warmup_steps(settings.warmup_steps) - settings.warmup_steps;
  // The trial's own blocks, and then those of the final comparison.
  return state_.remaining_steps() >= block * (2 * settings.blocks + 6) + unsettled;
}

void Tuning::take_search(const SearchReply& reply) {
  state_.calibration_json = reply.calibration_json;
  state_.incumbent_predicted = reply.incumbent.predicted;
  state_.explanation = reply.explanation;
  if (!reply.calibration_json.empty()) out_.act(RememberCalibration{reply.calibration_json});
  out_.changed = true;
}

// The plans that were measured, as the calibrated model sees them.
std::vector<KnownPlan> Tuning::known_plans(const SearchReply& reply) const {
  std::vector<KnownPlan> known;
  const std::size_t count = std::min(reply.observed.size(), state_.observations.size());
  for (std::size_t i = 0; i < count; ++i) {
    const MeasuredPlan& measured = state_.observations[i];
    std::string name = "the initial plan";
    for (const Trial& trial : state_.trials) {
      if (trial.plan.hash == measured.plan.hash) name = "trial " + std::to_string(trial.id);
    }
    const double error = measured.measured_ms > 0 ? measured.sigma_ms / measured.measured_ms : 0;
    known.push_back({std::move(name), reply.observed[i].layout, reply.observed[i].predicted.mean_ms, error});
  }
  return known;
}

// The most that a plan may take, at its most optimistic, to be worth a trial.
double Tuning::worthwhile_ms() const {
  return state_.incumbent_measured.mean_ms * (1 - state_.job.trials.minimum_gain);
}

bool Tuning::is_settled(const std::string& hash) const {
  const auto holds = [&hash](const std::vector<std::string>& hashes) {
    return std::find(hashes.begin(), hashes.end(), hash) != hashes.end();
  };
  const bool failed = holds(state_.failed_hashes) || holds(state_.hung_hashes);
  return failed || hash == state_.incumbent.hash || hash == state_.initial.hash || state_.was_tried(hash);
}

void Tuning::pass_over(const Candidate& candidate, const KnownPlan& copied) {
  const auto again = [&](const PassedOver& one) { return one.plan.hash == candidate.plan.hash; };
  if (std::any_of(state_.passed_over.begin(), state_.passed_over.end(), again)) return;
  std::string why = "differs from " + copied.name + " in recompute alone, by less than the noise of " +
                    format_percent(noise_of(copied));
  out_.note("plan", "a plan predicted at " + format_ms(candidate.predicted.mean_ms) + " is not tried: it " + why,
       candidate.plan.json);
  state_.passed_over.push_back({candidate.plan, candidate.predicted.mean_ms, std::move(why)});
}

// Of the best few plans that have not been tried and are no near copies of each other or of a measured one, the one
// whose optimistic bound is best.
const Candidate* Tuning::choose(const SearchReply& reply) {
  std::vector<KnownPlan> known = known_plans(reply);
  const std::size_t measured = known.size();
  const Candidate* best = nullptr;
  std::int32_t considered = 0;
  for (const Candidate& one : reply.candidates) {
    if (is_settled(one.plan.hash)) continue;
    if (const KnownPlan* copied = near_copy_of(one, known)) {
      const bool of_measured = copied < known.data() + measured;
      if (of_measured && optimistic_ms(one) < worthwhile_ms()) pass_over(one, *copied);
      continue;
    }
    if (++considered > state_.job.trials.candidates) break;
    if (best == nullptr || optimistic_ms(one) < optimistic_ms(*best)) best = &one;
    // Candidates come best first: later near copies of this one are predicted to be slower.
    known.push_back({"", one.layout, one.predicted.mean_ms, relative_error(state_.incumbent_measured)});
  }
  return best;
}

void Tuning::recommend(const Candidate* best) {
  if (best != nullptr && best->predicted.mean_ms < worthwhile_ms()) {
    state_.recommendation_json = best->plan.json;
    out_.note("result", "a faster plan is recommended: predicted " + format_ms(best->predicted.mean_ms) + " a step",
         best->plan.json);
  }
  finish_trials("mode recommend: the recommendation stands, nothing is tried");
}

void Tuning::decide(const SearchReply& reply) {
  if (!reply.error.empty()) return finish_trials("the search failed: " + reply.error, false);
  take_search(reply);
  note_stale(reply);
  const Candidate* best = choose(reply);
  if (!reply.infeasible.empty()) out_.note("warning", "the search found no plan that fits: " + reply.infeasible);
  if (state_.job.mode == JobMode::kRecommend) return recommend(best);
  if (best == nullptr || optimistic_ms(*best) >= worthwhile_ms()) {
    return finish_trials("no plan that has not been tried may beat the incumbent by " +
                         format_number(state_.job.trials.minimum_gain * 100) + " %");
  }
  if (state_.trials_made() >= state_.job.trials.max_trials) {
    return finish_trials("the most trials that the job allows have been made");
  }
  if (const std::string spent = overhead_spent(*best); !spent.empty()) return finish_trials(spent);
  if (!enough_steps_for_trial()) return finish_trials("too few steps are left for another trial");
  const bool in_time = enough_walltime_for(state_.job.trials.blocks);
  if (!in_time) return finish_trials("too little walltime is left for another trial");
  begin_trial(*best);
}

}  // namespace trimtab::coordinator
