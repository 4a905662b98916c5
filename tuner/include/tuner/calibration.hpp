#pragma once

// What trials teach the cost model: factors on terms, not on totals, shrunk towards 1 so that a few noisy trials cannot
// swing them (a normal prior on log factors; the posterior gives the interval). What an earlier job learnt is the prior
// of the next, once it is aged. Pure; plain values.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/plan.hpp"
#include "schema/prediction.hpp"

namespace trimtab::tuner {

struct Factor {
  double value = 1.0;
  double log_sigma = 0.15;  // posterior standard deviation of log(value)
};

struct Calibration {
  Factor computation;
  Factor communication;
  Factor memory;              // on activations and working memory
  double fixed_ms = 0;        // per iteration, owned by no term
  double fixed_sigma_ms = 0;  // posterior standard deviation of fixed_ms
  // Posterior correlations of (log computation, log communication), (log computation, fixed), (log communication,
  // fixed).
  std::array<double, 3> correlations{};
  double residual_sigma = 0.05;  // relative, of what is left unexplained
  int observations = 0;
};

// One measured plan: the uncalibrated prediction and what happened.
struct Observation {
  Plan plan;
  Prediction prediction;  // made with a default Calibration
  double measured_ms = 0;
  double measured_sigma_ms = 0;               // standard error of the mean
  std::vector<double> measured_memory_bytes;  // peak per stage; empty = unknown
};

[[nodiscard]] Calibration calibrate(const std::vector<Observation>& observations);

class CostTable;

// The same, begun from `prior`, and with shares taken anew where the factors move: what overlaps or waits depends on
// them. The observations' own predictions are not used.
[[nodiscard]] Calibration calibrate(const CostTable& table, const std::vector<Observation>& observations,
                                    const Calibration& prior);

// An earlier job's, as a prior: the same factors, less sure. `shift`: the logarithm by which step times have changed
// since, of which nobody knows what caused it; links change by more than the step that they are a part of.
[[nodiscard]] Calibration aged(Calibration calibration, double shift = 0);

[[nodiscard]] std::string to_json(const Calibration& calibration);
[[nodiscard]] Result<Calibration> parse_calibration(std::string_view json);

}  // namespace trimtab::tuner
