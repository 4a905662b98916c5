#include <algorithm>

#include "base/text_parts.hpp"
#include "plan/plan_space.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int32_t kAcesoWidth = 8;    // devices of a stage and tensor-parallel ranks at most
constexpr std::int32_t kAcesoStages = 16;  // stages at most

// Stages of 1, 2, 4 or 8 devices inside a node, tensor parallelism inside of that, no sharding; what is recomputed is
// derived from the memory limit (Aceso's published search).
void restrict_to_aceso(const Cluster& cluster, PlanSpace& space) {
  space.device_counts = powers_of_two(kAcesoWidth);
  space.tensor_parallel = powers_of_two(std::min(kAcesoWidth, largest_node(cluster)));
  space.node_boundaries = true;
  space.derived_recompute = true;
  space.sliced_microbatches = false;
  space.sub_batches = {{}};
  space.stages_min = 1;
  space.stages_max = std::min(space.stages_max, kAcesoStages);
}

// One stage over all devices, a tensor-parallel degree for each operator, the whole batch at once; everything is
// recomputed (Oases, section V).
void restrict_to_oases(const Model& model, const Cluster& cluster, PlanSpace& space) {
  space.stages_min = space.stages_max = 1;
  space.device_counts = {cluster.devices()};
  space.tensor_parallel = powers_of_two(cluster.devices());
  space.mixed_splits = true;
  space.derived_recompute = true;
  if (!space.microbatches.empty() && space.microbatches.back() == model.global_batch) {
    space.microbatches = {model.global_batch};
  }
}

bool has_alternate(const Model& model) {
  return std::ranges::any_of(model.operators, [](const Operator& op) { return op.shardings.size() > 1; });
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
  space.sharded = sharding_levels();
  mix_splits(model, space);
  space.sliced_microbatches = true;
  space.memory_switches = true;
  if (space.tensor_parallel.size() > 1) space.sub_batches = every_sub_batches();
}

// Galvatron's decision trees: equal stages of a power of two of devices, each layer on its own power of two of
// tensor-parallel ranks, with its parameters sharded or not; v2's replicas share optimizer states and gradients.
// Mixed: with replicas of shards too, the paper's 68 ways on 8 devices instead of 44.
template <bool kMixed>
void widen_to_galvatron(const Model& model, const Cluster& cluster, PlanSpace& space) {
  space.device_counts = powers_of_two(cluster.devices());
  space.tensor_parallel = powers_of_two(cluster.devices());
  space.sharded = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  space.replicated_shards = kMixed;
  mix_splits(model, space);
}

using Shape = void (*)(const Model& model, const Cluster& cluster, PlanSpace& space);

template <bool kMixed, bool kFreeRecompute>
void shape_aceso(const Model& model, const Cluster& cluster, PlanSpace& space) {
  restrict_to_aceso(cluster, space);
  if (kMixed || (model.aceso && model.aceso->mixed_splits)) mix_splits(model, space);
  space.derived_recompute = !kFreeRecompute;
}

template <bool kSliced>
void shape_autopipe(const Model& /*model*/, const Cluster& /*cluster*/, PlanSpace& space) {
  space.equal_stages = true;
  space.sliced_microbatches = kSliced;
}

struct NamedSpace {
  std::string_view name;
  Shape shape;  // null: as the job's knobs say
};

constexpr NamedSpace kSpaces[] = {
    {"job", nullptr},
    {"aceso", shape_aceso<false, false>},
    {"aceso-recompute", shape_aceso<false, true>},
    {"aceso-mixed", shape_aceso<true, false>},
    {"aceso-free", shape_aceso<true, true>},
    {"autopipe", shape_autopipe<true>},
    {"autopipe-whole", shape_autopipe<false>},
    {"galvatron", widen_to_galvatron<false>},
    {"galvatron-mixed", widen_to_galvatron<true>},
    {"oases", restrict_to_oases},
    {"all", widen_to_all},
};

struct Family {
  std::string_view name;
  void (*leave_out)(PlanSpace& space);
};

constexpr Family kFamilies[] = {
    {"recompute", [](PlanSpace& space) { space.knobs.recompute = false; }},
    {"tensor_parallel", [](PlanSpace& space) { space.tensor_parallel = {1}; }},
    {"sharded", [](PlanSpace& space) { space.sharded = {ShardedLevel::kNone}; }},
    {"mixed_splits", [](PlanSpace& space) { space.mixed_splits = space.alternate_dimensions = false; }},
    {"sliced_microbatches", [](PlanSpace& space) { space.sliced_microbatches = false; }},
    {"sub_batches", [](PlanSpace& space) { space.sub_batches = {{}}; }},
    {"memory_switches", [](PlanSpace& space) { space.memory_switches = false; }},
};

}  // namespace

Status leave_out(const std::vector<std::string>& families, PlanSpace& space) {
  for (const std::string& name : families) {
    const auto* const family =
        std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& one) { return one.name == name; });
    if (family == std::end(kFamilies)) {
      return bad_input("without: needs some of " + joined(kFamilies, ", ", &Family::name) + ", found '" + name + "'");
    }
    family->leave_out(space);
  }
  return {};
}

Result<PlanSpace> named_space(std::string_view name, const Model& model, const Cluster& cluster, const Knobs& knobs,
                              std::int32_t fixed_microbatch) {
  std::string known;
  for (const NamedSpace& one : kSpaces) {
    known += (known.empty() ? "" : ", ") + std::string(one.name);
    if (one.name != name) continue;
    PlanSpace space = plan_space(model, cluster, knobs, fixed_microbatch);
    space.name = name;
    if (one.shape != nullptr) one.shape(model, cluster, space);
    return space;
  }
  return bad_input("space: needs one of " + known + ", found '" + std::string(name) + "'");
}

std::vector<std::string_view> spaces() {
  std::vector<std::string_view> names;
  for (const NamedSpace& one : kSpaces) names.push_back(one.name);
  return names;
}

}  // namespace trimtab::tuner
