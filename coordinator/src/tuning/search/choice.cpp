#include "tuning/search/choice.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/numbers.hpp"
#include "tuning/search/near_copies.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

double relative_error(const Measured& measured) {
  return measured.mean_ms > 0 ? measured.sigma_ms() / measured.mean_ms : 0;
}

// The plans that were measured, as the calibrated model sees them.
std::vector<KnownPlan> known_plans(const TuningState& state, const SearchReply& reply) {
  std::vector<KnownPlan> known;
  const std::size_t count = std::min(reply.observed.size(), state.observations.size());
  for (std::size_t i = 0; i < count; ++i) {
    const MeasuredPlan& measured = state.observations[i];
    std::string name = "the initial plan";
    for (const Trial& trial : state.trials) {
      if (trial.plan.hash == measured.plan.hash) name = "trial " + std::to_string(trial.id);
    }
    const double error = measured.measured_ms > 0 ? measured.sigma_ms / measured.measured_ms : 0;
    known.push_back({std::move(name), reply.observed[i].layout, reply.observed[i].predicted.mean_ms, error});
  }
  return known;
}

bool is_settled(const TuningState& state, const std::string& hash) {
  const auto holds = [&hash](const std::vector<std::string>& hashes) {
    return std::find(hashes.begin(), hashes.end(), hash) != hashes.end();
  };
  const bool failed = holds(state.failed_hashes) || holds(state.hung_hashes);
  return failed || hash == state.incumbent.hash || hash == state.initial.hash || state.was_tried(hash);
}

PassedOver passed_over(const PricedPlan& candidate, const KnownPlan& copied) {
  return {candidate.plan, candidate.predicted.mean_ms,
          "differs from " + copied.name + " in recompute alone, by less than the noise of " +
              format_percent(noise_of(copied))};
}

}  // namespace

double optimistic_ms(const TuningState& state, const PricedPlan& candidate) {
  if (candidate.gain_sigma < 0 || state.incumbent_measured.mean_ms <= 0) return candidate.predicted.low_ms;
  return state.incumbent_measured.mean_ms * std::exp(-promise(candidate));
}

double worthwhile_ms(const TuningState& state) {
  return state.incumbent_measured.mean_ms * (1 - state.job.trials.minimum_gain);
}

Choice choose(const TuningState& state, const SearchReply& reply) {
  std::vector<KnownPlan> known = known_plans(state, reply);
  const std::size_t measured = known.size();
  Choice choice;
  std::map<std::string, std::int32_t> considered;  // by shape
  for (const PricedPlan& one : reply.candidates) {
    if (is_settled(state, one.plan.hash)) continue;
    if (const KnownPlan* copied = near_copy_of(one, known)) {
      const bool of_measured = copied < known.data() + measured;
      if (of_measured && optimistic_ms(state, one) < worthwhile_ms(state))
        choice.near_copies.push_back(passed_over(one, *copied));
      continue;
    }
    if (++considered[one.shape] > state.job.trials.candidates) continue;
    if (choice.best == nullptr || optimistic_ms(state, one) < optimistic_ms(state, *choice.best)) choice.best = &one;
    // Candidates come best first: later near copies of this one are predicted to be slower.
    known.push_back({"", one.layout, one.predicted.mean_ms, relative_error(state.incumbent_measured)});
  }
  return choice;
}

const PricedPlan* beside_incumbent(const TuningState& state, const SearchReply& reply) {
  std::vector<KnownPlan> known;
  const double error = state.incumbent_measured.sigma_ms() / std::max(state.incumbent_measured.mean_ms, 1e-9);
  for (const Observed& one : reply.observed)
    known.push_back({"the incumbent", one.layout, one.predicted.mean_ms, error});
  const PricedPlan* best = nullptr;
  for (const PricedPlan& one : reply.candidates) {
    const bool failed = std::ranges::find(state.failed_hashes, one.plan.hash) != state.failed_hashes.end();
    const bool runs = one.plan.hash == state.incumbent.hash;
    if (failed || runs || near_copy_of(one, known) != nullptr) continue;
    if (best == nullptr || optimistic_ms(state, one) < optimistic_ms(state, *best)) best = &one;
  }
  return best != nullptr && optimistic_ms(state, *best) < worthwhile_ms(state) ? best : nullptr;
}

}  // namespace trimtab::coordinator
