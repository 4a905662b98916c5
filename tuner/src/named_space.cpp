#include <algorithm>

#include "plan_space.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kAcesoWidth = 8;    // devices of a stage and tensor-parallel ranks at most
constexpr std::int32_t kAcesoStages = 16;  // stages at most

std::vector<std::int32_t> powers_of_two(std::int32_t most) {
  std::vector<std::int32_t> powers;
  for (std::int32_t power = 1; power <= most; power *= 2) powers.push_back(power);
  return powers;
}

std::int32_t largest_node(const Cluster& cluster) {
  std::int32_t most = 1;
  for (const Node& node : cluster.nodes) most = std::max(most, node.devices);
  return most;
}

// Stages of 1, 2, 4 or 8 devices inside a node, tensor parallelism inside of that, no sharding; what is recomputed is
// derived from the memory limit (Aceso's published search).
void restrict_to_aceso(const Cluster& cluster, PlanSpace& space) {
  space.device_counts = powers_of_two(kAcesoWidth);
  space.tensor_parallel = powers_of_two(std::min(kAcesoWidth, largest_node(cluster)));
  space.node_boundaries = true;
  space.derived_recompute = true;
  space.stages_min = 1;
  space.stages_max = std::min(space.stages_max, kAcesoStages);
}

bool has_alternate(const Model& model) {
  return std::any_of(model.operators.begin(), model.operators.end(),
                     [](const Operator& op) { return op.shardings.size() > 1; });
}

// Splits that change inside a stage, along either dimension; not where the model's published predictor is known not to
// price the layout changes that follow.
void mix_splits(const Model& model, PlanSpace& space) {
  if (model.aceso && !model.aceso->resharding) return;
  space.mixed_splits = true;
  space.alternate_dimensions = has_alternate(model);
}

void widen_to_all(const Model& model, const Cluster& cluster, PlanSpace& space) {
  space.tensor_parallel = powers_of_two(largest_node(cluster));
  space.sharded = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients, ShardedLevel::kParameters};
  mix_splits(model, space);
}

}  // namespace

Result<PlanSpace> named_space(std::string_view name, const Model& model, const Cluster& cluster, const Knobs& knobs,
                              std::int32_t fixed_microbatch) {
  PlanSpace space = plan_space(model, cluster, knobs, fixed_microbatch);
  space.name = name;
  if (name == "job") return space;
  if (name.starts_with("aceso")) {
    const bool mixed = model.aceso && model.aceso->mixed_splits;
    restrict_to_aceso(cluster, space);
    if (mixed || name == "aceso-mixed" || name == "aceso-free") mix_splits(model, space);
    space.derived_recompute = name != "aceso-recompute" && name != "aceso-free";
  }
  if (name == "aceso" || name == "aceso-recompute" || name == "aceso-mixed" || name == "aceso-free") return space;
  if (name == "all") {
    widen_to_all(model, cluster, space);
    return space;
  }
  std::string known;
  for (const std::string_view one : spaces()) known += (known.empty() ? "" : ", ") + std::string(one);
  return bad_input("space: needs one of " + known + ", found '" + std::string(name) + "'");
}

std::vector<std::string_view> spaces() {
  return {"job", "aceso", "aceso-recompute", "aceso-mixed", "aceso-free", "all"};
}

}  // namespace trimtab::tuner
