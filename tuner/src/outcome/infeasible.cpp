#include "outcome/infeasible.hpp"

#include "outcome/remedies.hpp"
#include "schema/target.hpp"

namespace trimtab::tuner {
namespace {

std::string no_split(const PlanSpace& space) {
  return "no plan gives every one of the " + std::to_string(space.devices) + " devices a stage: the model has " +
         std::to_string(space.cuts.size()) +
         " places to cut, and replicas must share one of its microbatches evenly; allow more microbatches, "
         "data parallelism or fewer devices";
}

// Nothing is said of the plans that it did not come to.
std::string ended_early(const SearchRun& run, std::uint64_t plans, const std::string& excess) {
  return "none of " + std::to_string(plans) + (plans == 1 ? " plan" : " plans") + " fitted before the search " +
         (run.stop_reason() == "budget" ? "had used up its budget" : "was ended") + "; the nearest, " +
         shape_text(*run.closest()) + ", fails on " + excess + "; give it more to find one, or to say that none fits";
}

}  // namespace

std::string explain_infeasible(SearchRun& run) {
  if (!run.closest() && !run.refused().empty()) return "every plan that fits has failed before and is excluded";
  if (!run.closest() && !run.stop_reason().empty()) return "the search was ended before it found a plan that fits";
  if (!run.closest()) return no_split(run.space());
  const std::uint64_t plans = run.evaluator().evaluations();
  const std::string excess = run.evaluator().excess_text(*run.closest());
  if (excess.empty()) return "every plan that fits has failed before and is excluded";
  const bool ended = !run.stop_reason().empty();
  // What would help is looked for with strategies that know no target's limits.
  const std::string& target = run.options().target;
  if (!limits_plans(target)) {
    const std::string none = "no plan fits; the closest, " + shape_text(*run.closest()) + ", fails on " + excess;
    return (ended ? ended_early(run, plans, excess) : none) + remedies(run);
  }
  if (ended) return ended_early(run, plans, excess);
  return "no plan that target " + target + " runs fits; the closest, " + shape_text(*run.closest()) + ", fails on " +
         excess + "; search without --target for what would";
}

}  // namespace trimtab::tuner
