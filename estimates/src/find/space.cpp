#include "find/space.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::estimates {

namespace {

constexpr std::int32_t kMostChunks = 8;
constexpr std::int32_t kMostSamples = 32;           // of a microbatch
constexpr std::int32_t kLeastTokens = 4096;         // of a context-parallel rank
constexpr std::int32_t kGroupNodes[] = {1, 4, 16};  // whose replicas share one copy

std::vector<std::int32_t> divisors(std::int32_t number, std::int32_t most) {
  std::vector<std::int32_t> found;
  for (std::int32_t one = 1; one <= std::min(number, most); ++one) {
    if (number % one == 0) found.push_back(one);
  }
  return found;
}

std::int32_t most_tensor(const Machine& machine) {
  return std::min(machine.devices, machine.devices_per_node);
}

std::int32_t most_context(const Machine& machine, const ModelShape& shape) {
  return std::min(machine.devices, std::max(1, shape.sequence / kLeastTokens));
}

// Ranks that share one copy of the parameters; 0: all that hold the same.
std::vector<std::int32_t> group_sizes(const UniformPlan& plan, const Machine& machine) {
  std::vector<std::int32_t> sizes{0};
  for (const std::int32_t nodes : kGroupNodes) {
    const std::int32_t replicas = nodes * machine.devices_per_node / (plan.tensor * plan.context);
    if (replicas < 2 || replicas >= plan.replicas || plan.replicas % replicas != 0) continue;
    sizes.push_back(replicas * plan.context);
  }
  return sizes;
}

// A search has its own limits beside check() and check_target().
bool within_limits(const UniformPlan& plan, const Machine& machine, const ModelShape& shape) {
  const std::vector<std::int32_t> sizes = group_sizes(plan, machine);
  return plan.devices() <= machine.devices && plan.tensor <= most_tensor(machine) &&
         plan.context <= most_context(machine, shape) && plan.chunks <= kMostChunks &&
         plan.microbatch <= kMostSamples && std::ranges::count(sizes, plan.sharded_over) > 0;
}

class Walk {
 public:
  Walk(const Machine& machine, const ModelShape& shape, const FindOptions& options,
       const std::function<void(const UniformPlan&)>& visit)
      : machine_(machine), shape_(shape), options_(options), visit_(visit) {}

  void all() {
    UniformPlan plan;
    plan.global_batch = options_.global_batch;
    plan.precision = options_.precision;
    plan.gradient_bytes = options_.gradient_bytes;
    plan.optimizer_bytes = options_.optimizer_bytes;
    const bool splits = space_of(options_.target).splits_models;
    for (const std::int32_t tensor : divisors(shape_.heads, splits ? most_tensor(machine_) : 1)) {
      for (const std::int32_t context : divisors(shape_.sequence, splits ? most_context(machine_, shape_) : 1)) {
        for (const std::int32_t stages : divisors(shape_.layers, splits ? machine_.devices : 1)) {
          plan.tensor = tensor;
          plan.context = context;
          plan.stages = stages;
          if (std::int64_t{tensor} * context * stages <= machine_.devices) replicas(plan);
        }
      }
    }
  }

 private:
  void replicas(UniformPlan plan) {
    const std::int32_t most = machine_.devices / (plan.tensor * plan.context * plan.stages);
    for (const std::int32_t count : divisors(options_.global_batch, most)) {
      plan.replicas = count;
      if (options_.every && count * 2 <= most) continue;  // a page shows what uses the machine
      for (const std::int32_t microbatch : divisors(options_.global_batch / count, kMostSamples)) {
        plan.microbatch = microbatch;
        for (const std::int32_t chunks : divisors(shape_.layers / plan.stages, plan.stages > 1 ? kMostChunks : 1)) {
          plan.chunks = chunks;
          shardings(plan);
        }
      }
    }
  }

  void shardings(UniformPlan plan) {
    for (const Sharding& sharding : space_of(options_.target).shardings) {
      plan.sharded = sharding.level;
      plan.reshard = sharding.reshard;
      for (const std::int32_t over : group_sizes(plan, machine_)) {
        plan.sharded_over = over;
        const UniformPlan run = as_run(plan, options_.target);
        if (check_target(run, shape_, options_.target).ok() && check(run, shape_).ok()) visit_(run);
      }
    }
  }

  const Machine& machine_;
  const ModelShape& shape_;
  const FindOptions& options_;
  const std::function<void(const UniformPlan&)>& visit_;
};

}  // namespace

std::int32_t layers_of_chunk(const UniformPlan& plan, const ModelShape& shape) {
  return shape.layers / (plan.stages * plan.chunks);
}

void each_layout(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                 const std::function<void(const UniformPlan&)>& visit) {
  Walk(machine, shape, options, visit).all();
}

bool in_space(const UniformPlan& plan, const Machine& machine, const ModelShape& shape, const FindOptions& options) {
  const UniformPlan run = as_run(plan, options.target);
  if (plan.global_batch != options.global_batch || plan.precision != options.precision ||
      plan.gradient_bytes != options.gradient_bytes || plan.optimizer_bytes != options.optimizer_bytes ||
      plan.compiled_loss != run.compiled_loss || plan.framework != run.framework ||
      plan.sequence_parallel != run.sequence_parallel || plan.overlaps_transfers != run.overlaps_transfers ||
      plan.overlaps_gradients != run.overlaps_gradients || plan.overlaps_parameters != run.overlaps_parameters ||
      plan.overlaps_tensor != run.overlaps_tensor) {
    return false;
  }
  if (!options.recomputed.empty() && std::ranges::count(options.recomputed, plan.recomputed) == 0) return false;
  if (plan.offloaded_optimizer && !options.offload) return false;
  if (!check(plan, shape).ok() || !check_target(plan, shape, options.target).ok()) return false;
  return within_limits(plan, machine, shape);
}

}  // namespace trimtab::estimates
