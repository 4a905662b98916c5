#include "tuner/first_plan.hpp"

#include <utility>

#include "schema/target.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {

namespace {

// What an FSDP job without a plan does: every rank has its part of everything.
void shard_parameters(Plan& plan) {
  for (Stage& stage : plan.stages) {
    for (Segment& segment : stage.segments) {
      if (segment.dp > 1) segment.sharded = ShardedLevel::kParameters;
    }
  }
}

}  // namespace

Plan first_plan(const Model& model, const Cluster& cluster, const Knobs& knobs, std::string_view target) {
  Plan guess = usual_guess(model, cluster, knobs);
  if (!limits_plans(target)) return guess;
  // Targets recompute layers alone, if anything; nothing recomputed is what every target runs.
  guess = layout_of(std::move(guess));
  const auto runs = [&](const Plan& plan) {
    const auto complaints = unhonoured(plan, model, target);
    return complaints.ok() && complaints->empty() && validate(plan, model, cluster).empty();
  };
  Knobs replicas_alone = knobs;
  replicas_alone.pipeline = replicas_alone.tensor_parallel = false;
  replicas_alone.data_parallel = true;
  Plan replicas = layout_of(usual_guess(model, cluster, replicas_alone));
  const bool fsdp = target == "fsdp" || target == "fsdp2";
  if (fsdp && knobs.sharded) shard_parameters(replicas);
  const bool better = fsdp || !runs(guess);
  return better && runs(replicas) ? replicas : guess;
}

}  // namespace trimtab::tuner
