#include <algorithm>

#include "base/check.hpp"
#include "estimates/constants.hpp"
#include "estimates/estimate.hpp"
#include "framework_memory.hpp"
#include "reserved_memory.hpp"
#include "stage_layers.hpp"
#include "stored_activations.hpp"

namespace trimtab::estimates {
namespace {

// Weights, gradients and optimizer of a stage with `count` parameters on a device.
StageMemory states(const UniformPlan& plan, double count) {
  const FrameworkMemory framework = framework_memory(plan);
  const double divided = count / optimizer_shards(plan);
  const double weights = plan.sharded == Sharded::kParameters ? divided : count;
  const double gradients = plan.sharded >= Sharded::kGradients ? divided : count;
  const double optimizer = plan.sharded >= Sharded::kOptimizer ? divided : count;
  const bool master_is_weight = framework.weight_bytes == 0;
  StageMemory memory;
  memory.parameters = master_is_weight ? weights * plan.optimizer_bytes / 3.0 : weights * framework.weight_bytes;
  memory.gradients = gradients * (plan.gradient_bytes + framework.bucket_bytes);
  memory.optimizer = optimizer * plan.optimizer_bytes * (master_is_weight ? 2.0 / 3.0 : 1.0);
  if (plan.offloaded_optimizer) memory.optimizer = 0;
  return memory;
}

// FSDP: two gathered units in computation, the unit's whole gradients, and the root's embedding and head.
double gathered_parameters(const ModelShape& shape, const UniformPlan& plan) {
  if (plan.sharded != Sharded::kParameters) return 0;
  const double layer = device_layer_parameters(shape, plan);
  const double root = (shape.tied ? 1.0 : 2.0) * padded_vocabulary(shape, plan) * shape.hidden / plan.tensor;
  const double all = plan.reshard ? 2 * layer : stage_layers(shape, plan, 0) * layer;
  return 2 * all + 2 * root + plan.gradient_bytes * layer;
}

struct Passes {
  double kept = 0;     // activations of all microbatches under way
  double one = 0;      // of these, of one microbatch
  double working = 0;  // in a layer's backward pass
  double head = 0;
};

Passes passes(const ModelShape& shape, const UniformPlan& plan, const Constants& constants, std::int32_t stage) {
  const LayerActivations layer = layer_activations(shape, plan);
  Passes result;
  const double under_way = microbatches_under_way(plan, stage);
  const double whole = stage_layers(shape, plan, stage) * layer.kept;
  const double resident = std::min(under_way, constants.resident_chunks / plan.chunks) * plan.offloaded_activations;
  result.one = whole * (1 - plan.offloaded_activations);
  result.kept = result.one * under_way + whole * resident;
  const double embedded = stage == 0 ? framework_memory(plan).embedding_bytes * layer.hidden : 0;
  result.one += embedded;
  result.kept += embedded * under_way;
  result.working = layer.backward + std::max(0.0, layer.whole - layer.kept);
  if (stage + 1 == plan.stages) result.head = head_activations(shape, plan);
  return result;
}

StageMemory stage_memory(const ModelShape& shape, const UniformPlan& plan, const Constants& constants,
                         std::int32_t stage) {
  const FrameworkMemory framework = framework_memory(plan);
  const double count = stage_parameters(shape, plan, stage);
  StageMemory memory = states(plan, count);
  if (framework.kept_weight_gradients) memory.gradients += 2 * device_layer_parameters(shape, plan);
  const Passes pass = passes(shape, plan, constants, stage);
  const double gathered = gathered_parameters(shape, plan);
  const double half_gradients = framework.half_gradient_bytes * count;
  const double begin = pass.kept + std::max(pass.head, pass.working);
  const double end = pass.kept - pass.one + half_gradients + pass.working;
  const double updated = plan.sharded >= Sharded::kOptimizer ? count / optimizer_shards(plan) : count;
  const double update = framework.update_bytes * updated;
  const double passing = std::max(begin, end) + gathered;
  memory.activations = passing >= update ? (begin >= end ? pass.kept : pass.kept - pass.one) : 0;
  memory.peak = std::max(passing, update) - memory.activations;
  return memory;
}

}  // namespace

MemoryEstimate estimate_memory(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                               const Constants& constants) {
  TRIMTAB_ASSERT(plan.stages > 0, "a plan has a stage");
  MemoryEstimate result;
  double fullest = 0;
  for (std::int32_t stage = 0; stage < plan.stages; ++stage) {
    const StageMemory memory = stage_memory(shape, plan, constants, stage);
    const double allocated = memory.allocated();
    const double held = held_bytes(machine, shape, plan, constants, stage, allocated);
    result.stages.push_back(memory);
    if (stage == 0) {
      result.first_allocated = allocated;
      result.first_reserved = reserved_bytes(machine, plan, allocated, held);
    }
    if (held <= fullest) continue;
    fullest = held;
    result.fullest = stage;
    result.allocated = allocated;
    result.reserved = reserved_bytes(machine, plan, allocated, held);
  }
  result.process = result.reserved + process_bytes(plan);
  result.fits = chance_to_fit(machine, fullest + process_bytes(plan));
  return result;
}

}  // namespace trimtab::estimates
