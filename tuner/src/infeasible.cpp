#include "infeasible.hpp"

#include "remedies.hpp"
#include "schema/target.hpp"

namespace trimtab::tuner {
namespace {

std::string no_split(const PlanSpace& space) {
  return "no plan gives every one of the " + std::to_string(space.devices) + " devices a stage: the model has " +
         std::to_string(space.cuts.size()) +
         " places to cut, and replicas must share one of its microbatches evenly; allow more microbatches, "
         "data parallelism or fewer devices";
}

}  // namespace

std::string explain_infeasible(SearchRun& run) {
  if (!run.closest() && !run.refused().empty()) return "every plan that fits has failed before and is excluded";
  if (!run.closest() && !run.stop_reason().empty()) return "the search was ended before it found a plan that fits";
  if (!run.closest()) return no_split(run.space());
  const std::string excess = run.evaluator().excess_text(*run.closest());
  if (excess.empty()) return "every plan that fits has failed before and is excluded";
  // What would help is looked for with strategies that know no target's limits.
  const std::string& target = run.options().target;
  if (limits_plans(target)) {
    return "no plan that target " + target + " runs fits; the closest, " + shape_text(*run.closest()) + ", fails on " +
           excess + "; search without --target for what would";
  }
  return "no plan fits; the closest, " + shape_text(*run.closest()) + ", fails on " + excess + remedies(run);
}

}  // namespace trimtab::tuner
