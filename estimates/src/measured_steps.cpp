#include "estimates/measured_steps.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "estimates/constants.hpp"

namespace trimtab::estimates {

Correction correction_of(const Machine& machine, const ModelShape& shape, std::span<const MeasuredStep> measured,
                         const Constants& constants) {
  double sum = 0;
  for (const MeasuredStep& step : measured) {
    TRIMTAB_ASSERT(step.step_s > 0, "a measured step takes a time");
    sum += std::log(step.step_s / estimate(machine, shape, step.plan, constants).step_s);
  }
  const double own = constants.own_spread * constants.own_spread;
  const double shared = std::max(constants.spread * constants.spread - own, 0.0);
  const double count = static_cast<double>(measured.size());
  const double weight = shared * count / (shared * count + own);
  const double mean = measured.empty() ? 0 : weight * sum / count;
  return {std::exp(mean), std::sqrt(own + shared * (1 - weight))};
}

Estimate corrected(Estimate estimate, const Correction& correction) {
  for (const NamedPart& part : kStepParts) estimate.parts.*part.seconds *= correction.factor;
  estimate.step_s *= correction.factor;
  estimate.tokens_per_s_per_device /= correction.factor;
  estimate.utilization /= correction.factor;
  const double reach = std::exp(1.645 * correction.spread);  // nine of ten
  estimate.least_s = estimate.step_s / reach;
  estimate.most_s = estimate.step_s * reach;
  return estimate;
}

}  // namespace trimtab::estimates
