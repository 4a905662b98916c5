#include "simulation/step_noise.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::coordinator {

double StepNoise::factor(std::int64_t step) {
  // Each step draws the same numbers whatever happens to it, so that runs of one seed stay comparable.
  const double shock = random_.normal();
  const double own = random_.normal();
  const double slow_rank = random_.uniform();
  const double kept = std::exp(-1 / std::max(settings_.drift_steps, 1e-3));
  drift_ = begun_ ? kept * drift_ + settings_.drift * std::sqrt(1 - kept * kept) * shock : settings_.drift * shock;
  begun_ = true;
  double factor = std::exp(drift_ + settings_.step * own);
  if (slow_rank < settings_.straggler) factor *= settings_.straggler_slowdown;
  if (settings_.outlier_every > 0 && step % settings_.outlier_every == 0) factor *= settings_.outlier_slowdown;
  return factor;
}

double StepNoise::rank_factor(std::int32_t ranks) {
  const double own = of_ranks_.normal();
  const bool slow = of_ranks_.uniform() < settings_.straggler / ranks;
  return std::exp(drift_ + settings_.step * own) * (slow ? settings_.straggler_slowdown : 1);
}

}  // namespace trimtab::coordinator
