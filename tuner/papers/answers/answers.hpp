#pragma once

// What the papers' cost models put together alike: predictions, the bars of a timeline, stage prices out of
// predictions, and the names of what a plan sets and a model does not price. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "native/costs/tables.hpp"
#include "plan/plan_rules.hpp"
#include "pricing/evaluator.hpp"

namespace trimtab::tuner::papers {

[[nodiscard]] Bytes bytes_of(double mib);

// The step's time, without an interval, and what of it is communication.
void set_time(double iteration_ms, double communication_ms, Prediction& prediction);
void name_bottleneck(std::size_t stage, bool communicates, Prediction& prediction);
// The stage's memory says that the plan does not fit.
void exceed(std::size_t stage, std::string reason, Prediction& prediction);
// "stage 1 needs 3.0 GiB, the memory limit is 2.0 GiB, 1.0 GiB too much: " and what helps.
[[nodiscard]] std::string excess_text(std::size_t stage, Bytes memory, Bytes limit, Bytes excess,
                                      std::string_view advice);

// A stage as formulas have it, one microbatch after the other at the slowest stage's pace.
struct PacedStage {
  double ms = 0;                                     // of a microbatch
  std::vector<std::pair<EventKind, double>> passes;  // ms each, in order
  double sync_ms = 0;                                // behind the last microbatch
};
[[nodiscard]] std::vector<TimelineEvent> paced_timeline(const std::vector<PacedStage>& stages,
                                                        std::int32_t microbatches);
// By begin.
void sort_events(std::vector<TimelineEvent>& events);

// A stage of a prediction without missing costs, limit and step time left to the caller.
[[nodiscard]] StagePrice stage_price(const StagePrediction& of);
void set_limit(double limit_bytes, StagePrice& price);

// For computing_sums(): of a step of so many microbatches; empty where a cost is missing.
[[nodiscard]] std::vector<double> computing_sums(const OperatorTable& costs, double microbatches);

// What models of whole microbatches, one after the other, leave out of a schedule.
void name_schedule(const Schedule& schedule, bool kind_is_priced, std::vector<std::string>& names);
void name_sub_batches(const Schedule& schedule, std::vector<std::string>& names);
void name_late_recompute(const Schedule& schedule, std::vector<std::string>& names);

// `visit` gets each segment and the text of its place, with a dot at the end.
template <typename Visit>
void each_segment(const Plan& plan, Visit&& visit) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t i = 0; i < plan.stages[s].segments.size(); ++i) {
      visit(plan.stages[s].segments[i], segment_text(s, i) + ".");
    }
  }
}

}  // namespace trimtab::tuner::papers
