#pragma once

// What trials teach the cost model: factors on terms, not on totals, shrunk towards 1 so that a few noisy trials cannot
// swing them (a normal prior on log factors; the posterior gives the interval). The time that each stage spent in its
// operators' passes teaches a factor for each operator: where stages are cut hangs on them, and a step's time tells of
// the slowest stage alone. What an earlier job learnt is the prior of the next, once it is aged. Pure; plain values.

#include <array>
#include <map>
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
  Factor memory;              // on memory that was measured: what operators store, and what they work with
  double fixed_ms = 0;        // per iteration, owned by no term
  double fixed_sigma_ms = 0;  // posterior standard deviation of fixed_ms
  // Posterior correlations of (log computation, log communication), (log computation, fixed), (log communication,
  // fixed).
  std::array<double, 3> correlations{};
  double residual_sigma = 0.05;  // relative, of what is left unexplained
  double memory_sigma = 0.015;   // the same, of stages' peaks
  int observations = 0;
  // Of an operator's passes, by cost key, beside `computation`; absent = 1.
  std::map<std::string, Factor> operators;
};

// One measured plan: the uncalibrated prediction and what happened.
struct Observation {
  Plan plan;
  Prediction prediction;  // made with a default Calibration
  double measured_ms = 0;
  double measured_sigma_ms = 0;               // standard error of the mean
  std::vector<double> measured_memory_bytes;  // peak per stage; empty = unknown
  // Of a step, by stage: what one rank spent in the passes of its operators, as the cost kinds mean them (forward,
  // backward and recomputed, with their own tensor-parallel collectives, without waiting for other stages). 0 =
  // unknown; empty = unknown of all.
  std::vector<double> measured_pass_ms;
  double measured_pass_sigma = 0.02;  // standard error of each, relative
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

// What a job on the same hardware has learnt, as a prior for another one that is not it: the factors of its classes of
// costs, far less sure. Operators' factors and the fixed time are its own.
[[nodiscard]] Calibration of_another_job(const Calibration& calibration);

[[nodiscard]] std::string to_json(const Calibration& calibration);
[[nodiscard]] Result<Calibration> parse_calibration(std::string_view json);

}  // namespace trimtab::tuner
