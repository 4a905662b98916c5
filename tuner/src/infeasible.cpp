#include "infeasible.hpp"

#include "memory_text.hpp"
#include "priced_plan.hpp"

namespace trimtab::tuner {
namespace {

std::string shape_text(const Candidate& candidate) {
  std::string text =
      std::to_string(candidate.stages.size()) + (candidate.stages.size() == 1 ? " stage" : " stages") + " on ";
  for (std::size_t s = 0; s < candidate.stages.size(); ++s) {
    text += (s > 0 ? " + " : "") + std::to_string(candidate.stages[s].devices);
  }
  return text + " devices, microbatch " + std::to_string(candidate.microbatch);
}

std::string no_split(const PlanSpace& space) {
  return "no plan gives every one of the " + std::to_string(space.devices) + " devices a stage: the model has " +
         std::to_string(space.cuts.size()) +
         " places to cut, and replicas must share one of its microbatches evenly; allow more microbatches, "
         "data parallelism or fewer devices";
}

}  // namespace

std::string explain_infeasible(const CostModel& cost_model, SearchRun& run) {
  if (!run.closest() && !run.refused().empty()) return "every plan that fits has failed before and is excluded";
  if (!run.closest() && !run.stop_reason().empty()) return "the search was ended before it found a plan that fits";
  if (!run.closest()) return no_split(run.space());
  const CostTable::Tables& tables = cost_model.table().tables();
  const Plan plan = run.evaluator().plan(*run.closest());
  const PricedPlan priced = price(tables, cost_model.calibration(), plan);
  const std::int32_t stage = worst_memory_stage(priced);
  if (stage < 0) return "every plan that fits has failed before and is excluded";
  const Knobs& knobs = run.space().knobs;
  std::string text = "no plan fits; the closest, " + shape_text(*run.closest()) + ", fails on " +
                     describe_excess(tables, cost_model.calibration(), plan, priced, stage, knobs.recompute);
  if (!knobs.recompute) text += "; the job does not honour knobs.recompute, which would free activations";
  if (!knobs.data_parallel) text += "; the job does not honour knobs.data_parallel, which would shrink microbatches";
  if (!knobs.pipeline) text += "; the job does not honour knobs.pipeline, which would split the parameters";
  return text;
}

}  // namespace trimtab::tuner
