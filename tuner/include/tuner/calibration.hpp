#pragma once

// What trials teach the cost model: factors on terms, not on totals, shrunk towards 1 so that a few noisy trials cannot
// swing them (a normal prior on log factors; the posterior gives the interval). The time that each stage spent in its
// operators' passes teaches a factor for each operator: where stages are cut hangs on them, and a step's time tells of
// the slowest stage alone. What else a stage spent its step on teaches a factor for each class of communication: a
// step's time alone cannot tell them apart. What an earlier job learnt is the prior of the next, once it is aged.
//
// A factor is applied where it foretells steps that it was not fitted to, and only there: each measured plan in turn is
// left out and predicted from the others (Stone 1974, cross-validatory choice), and then once more with that choice
// itself repeated without the plan. One that does not stays where the prior has it, as unsure as before. A prior is
// held to the same: one that foretells the measured steps worse than costs alone do is dropped. One measured step
// teaches no factor: nothing is left to hold it against. What its plan's passes say is applied where that step bears it
// out by far. Pure; plain values.

#include <array>
#include <cstddef>

#include "schema/prediction.hpp"

namespace trimtab::tuner {

struct Factor {
  double value = 1.0;
  double log_sigma = 0.15;  // posterior standard deviation of log(value)
};

// Classes of communication are measured in other ways, and so are wrong in other ways.
enum class CommunicationClass : std::uint8_t {
  kCollectives,  // inside a stage, apart from its operators' passes: changes of layout, what sub-batches reduce
  kGradients,    // their sums, tied parameters' too; what is sharded, gathered and scattered
  kTransfers,    // from stage to stage
};
inline constexpr std::size_t kCommunicationClasses = 3;
// What is learnt of time: log computation, log communication, the fixed time, the logarithm of each class's factor, log
// overlap, log bubble and log launching.
inline constexpr std::size_t kTimeParameters = 3 + kCommunicationClasses + 3;

struct Calibration {
  Factor computation;
  // Of all communication, and of each class beside that: together as unsure as computation before anything is known.
  Factor communication{1.0, 0.12};
  std::array<Factor, kCommunicationClasses> classes{{{1.0, 0.09}, {1.0, 0.09}, {1.0, 0.09}}};
  Factor overlap{1.0, 0.2};    // on what computing and communicating at once slow each other down by, beyond 1
  Factor bubble{1.0, 0.1};     // on what a step's busiest stage idles, transfers aside (BusiestSeat)
  Factor launching{1.0, 0.2};  // on what hosts take to issue passes, which devices are no part of
  Factor memory;               // on memory that was measured: what operators store, and what they work with
  double fixed_ms = 0;         // per iteration, owned by no term
  double fixed_sigma_ms = 0;   // posterior standard deviation of fixed_ms
  // Posterior correlations of each two parameters of time i < j, at j (j - 1) / 2 + i.
  std::array<double, kTimeParameters*(kTimeParameters - 1) / 2> correlations{};
  double residual_sigma = 0.05;  // relative, of what is left unexplained
  double memory_sigma = 0.015;   // the same, of stages' peaks
  int observations = 0;
  // The mean relative error of steps that were left out: each by what the others teach, the choice of what is applied
  // included, and by the costs alone. Of what this was learnt from; 0 of none. Never the first above the second.
  double left_out_error = 0;
  double left_out_error_of_costs = 0;
  // Of an operator's passes, by cost key, beside `computation`; absent = 1.
  std::map<std::string, Factor> operators;
  // By which training had corrected the costs of passes that all this was learnt beside (cost_choice.hpp); absent = 1.
  std::map<std::string, double> corrections;

  // What communication of the class is multiplied by.
  [[nodiscard]] double moving(CommunicationClass of) const {
    return communication.value * classes[static_cast<std::size_t>(of)].value;
  }
};

// How a step's time follows from the parameters of time, in their order.
using TimeSlopes = std::array<double, kTimeParameters>;
using TimeCovariance = std::array<TimeSlopes, kTimeParameters>;
// Of the parameters: what their log_sigma, fixed_sigma_ms and correlations say.
[[nodiscard]] TimeCovariance time_covariance(const Calibration& calibration);
void set_time_covariance(const TimeCovariance& covariance, Calibration& calibration);
[[nodiscard]] TimeSlopes time_slopes(const Prediction& prediction);
// Of two times with these slopes, by what the parameters may be off.
[[nodiscard]] double covariance(const Calibration& calibration, const TimeSlopes& a, const TimeSlopes& b);
// How far log moving(class) may be off.
[[nodiscard]] double log_sigma(const Calibration& calibration, CommunicationClass of);

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
  // Of a step, by stage: where its ranks' time went. Without any time = unknown; empty = unknown of all. A term of 0
  // is one that nobody measures.
  std::vector<StepTerms> measured_terms;
};

[[nodiscard]] Calibration calibrate(const std::vector<Observation>& observations);

class CostTable;

// Learnt beside other corrections of costs than the table has now. What the passes of an operator took in trials may be
// what training has corrected since: of a factor that says the same as the correction as much goes as that says, and it
// never crosses 1.
[[nodiscard]] Calibration beside_corrections_of(const CostTable& table, Calibration calibration);

// The same, begun from `prior`, and with shares taken anew where the factors move: what overlaps or waits depends on
// them. The observations' own predictions are not used.
[[nodiscard]] Calibration calibrate(const CostTable& table, const std::vector<Observation>& observations,
                                    const Calibration& prior);

// An earlier job's, as a prior: the same factors, less sure. How they hang together stays known. The shifts: the
// logarithms by which computation, and any class of communication, may have changed since besides.
[[nodiscard]] Calibration aged(Calibration calibration, double computation_shift = 0, double communication_shift = 0);

// What a job on the same hardware has learnt, as a prior for another one that is not it: the factors of its classes of
// costs, far less sure. Operators' factors and the fixed time are its own.
[[nodiscard]] Calibration of_another_job(const Calibration& calibration);

// What `earlier` says of times, and `learnt` of memory.
[[nodiscard]] Calibration times_of(Calibration earlier, const Calibration& learnt);

[[nodiscard]] std::string to_json(const Calibration& calibration);
[[nodiscard]] Result<Calibration> parse_calibration(std::string_view json);

}  // namespace trimtab::tuner
