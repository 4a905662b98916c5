#include "tuning/trial/gains.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {
namespace {

std::optional<Ratio> product_of_trials(const TuningState& state) {
  Ratio gain;
  double above = 0;
  double below = 0;
  for (const Trial& trial : state.trials) {
    if (trial.id <= state.trials_before_tuning || trial.state != TrialState::kAdopted) continue;
    gain.ratio *= trial.ratio.ratio;
    above = root_of_squares(above, std::log(trial.ratio.high / trial.ratio.ratio));
    below = root_of_squares(below, std::log(trial.ratio.ratio / trial.ratio.low));
  }
  if (gain.ratio == 1) return std::nullopt;
  return Ratio{gain.ratio, gain.ratio * std::exp(-below), gain.ratio * std::exp(above)};
}

}  // namespace

bool was_tuned_again(const TuningState& state) {
  return state.hardware.retune_wait > 0;
}

std::optional<Ratio> gained(const TuningState& state) {
  const bool again = !state.retuned_from.plan.empty();
  if (!(again ? state.retuned_compared : state.compared)) return product_of_trials(state);
  if (state.incumbent.hash == (again ? state.retuned_from.plan : state.initial).hash) return std::nullopt;
  return again ? state.retuned_ratio : state.final_ratio;
}

}  // namespace trimtab::coordinator
