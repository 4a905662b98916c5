#pragma once

// What the tuning machine asks of the tuner, in documents, so that the machine knows plans only by their text and hash.
// plan_search() is pure but for the clock and runs on the search worker's thread.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "schema/api/timeline.hpp"
#include "schema/cost.hpp"
#include "schema/job.hpp"
#include "schema/prediction.hpp"
#include "tuning/hardware/diagnosis.hpp"
#include "tuning/hardware/link_changes.hpp"
#include "tuning/hardware/measured_again.hpp"
#include "tuning/trial/term_parts.hpp"

namespace trimtab::coordinator {

// A plan that ran, for calibration.
struct MeasuredPlan {
  PlanText plan;
  double measured_ms = 0;
  double sigma_ms = 0;
  std::vector<double> peak_bytes;     // by rank; empty = unknown
  std::vector<double> pass_ms;        // by rank: of a step, in its operators' passes; 0 = unknown; empty = of all
  std::int32_t pass_steps = 0;        // that they are means of, of the rank that told least
  std::vector<StepTerms> terms;       // by stage: where a step went; of no time = unknown; empty = of all
  std::vector<TermParts> parts = {};  // of those, for people: not stored
};

// A plan that ran out of memory.
struct TooBig {
  PlanText plan;
  double peak_bytes = 0;  // of the rank that held most; 0 = unknown
};

// The logarithms by which the calibration's factors may have changed since they were learnt.
struct Shift {
  double computation = 0;
  double communication = 0;
};

// What searches a job that names no strategy.
inline constexpr const char* kUsualStrategy = "unified";

struct SearchTask {
  std::string model_json;  // empty = nobody knows it: own knobs are tried alone
  ClusterText cluster;
  std::vector<Cost> costs;  // filled in by who carries the task out
  Knobs knobs;
  std::vector<OwnKnob> own_knobs;
  OwnSettings own_written;  // of their keys, as the job file has them
  std::int32_t ranks = 1;
  std::string target;    // plans that it runs alone (schema/target.hpp); empty = any
  bool live = false;     // ranks change their plan as they train
  std::string strategy;  // empty = kUsualStrategy
  PlanText initial;      // empty = the usual guess
  PlanText incumbent;    // empty = the initial plan
  std::vector<MeasuredPlan> observations;
  std::string calibration_json;                 // of earlier jobs: where learning from the observations begins
  Shift shift;                                  // what may have changed since
  LinkChanges link_changes;                     // what a drift has made of them
  std::map<NodePair, std::int32_t> doubted;     // by counters, each with a device of such a link; -1: any
  std::map<std::int32_t, double> slow_devices;  // their speed beside those that costs are of
  std::vector<MeasuredCost> measured_again;     // since then
  std::vector<std::string> excluded;
  std::vector<TooBig> too_big;
  std::size_t plans = 10;
  std::size_t of_a_shape = 0;  // most plans of one shape; 0 = any number
  bool price_only = false;     // no search: predictions and timelines of initial and incumbent plan
  std::uint64_t seed = 1;
  std::uint64_t max_evaluations = 0;
  Nanoseconds time_budget{0};  // 0 = none
};

// Times are 0 where the plan is not priced: a cost of time is missing, by name in the prediction.
struct Predicted {
  double raw_ms = 0;  // without calibration; 0 of own knobs, whose time is expected from trials alone
  double mean_ms = 0;
  double low_ms = 0;
  double high_ms = 0;
  bool feasible = true;

  [[nodiscard]] bool priced() const { return mean_ms > 0; }
  [[nodiscard]] bool by_model() const { return priced() && raw_ms > 0; }
};

struct PricedPlan {
  PlanText plan;
  std::string layout;  // hash of the plan without its recompute ranges
  Predicted predicted;
  std::vector<StepTerms> terms = {};  // as predicted, by stage
  // The logarithm of incumbent over candidate as predicted, and how far that may be off: errors that both share cancel.
  // Less than 0 = unknown.
  double log_gain = 0;
  double gain_sigma = -1;
  std::string shape = {};  // equal for plans of one shape (shape_of)
};

// Standard deviations that luck is worth: 95 %, one-sided.
inline constexpr double kLuck = 1.645;
// The logarithm of incumbent over candidate if the candidate is lucky. REQUIRES: gain_sigma is known.
[[nodiscard]] inline double promise(const PricedPlan& one) {
  return one.log_gain + kLuck * one.gain_sigma;
}

// A plan that was measured, as the model sees it by now.
struct Observed {
  std::string layout;
  Predicted predicted;
};

struct SearchReply {
  std::string error;       // the search could not be done at all
  std::string infeasible;  // it could, and nothing fits
  PricedPlan initial;
  PricedPlan incumbent;
  std::vector<PricedPlan> candidates;  // best first
  std::vector<Observed> observed;      // the task's observations, in order, with the new calibration
  std::string calibration_json;
  std::string explanation;
  std::int32_t costs_known = 0;
  std::int32_t costs_stale = 0;      // of levels of links that have changed: taken as these were probed
  api::Timeline initial_timeline;    // price_only
  api::Timeline incumbent_timeline;  // price_only
  std::uint64_t evaluations = 0;
  double seconds = 0;
  std::string stopped;
};

[[nodiscard]] SearchReply plan_search(const SearchTask& task, const Clock& clock, const std::function<bool()>& stop);

}  // namespace trimtab::coordinator
