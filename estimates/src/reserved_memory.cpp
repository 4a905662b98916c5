#include "reserved_memory.hpp"

#include <algorithm>
#include <cmath>

#include "framework_memory.hpp"
#include "stage_layers.hpp"
#include "stored_activations.hpp"

namespace trimtab::estimates {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// Free memory between blocks, beside what is allocated: the caching allocator joins blocks of one segment alone. It is
// the median of 38 shares: of the 16 rows of the family internevo (7 to 29 %), and of the allocator's rules followed
// through three steps of 22 plans of nanotron (1 to 8 %, bench/scoreboard/followed_allocator.py).
constexpr double kFragments = 0.065;
// Of what is needed: the root of the mean square of the errors on the families kwai, mcore_golden and internevo.
constexpr double kSpread = 0.07;
// A CUDA context that loads kernels as they are used, and one that loads all of PyTorch's and its libraries'.
constexpr double kContext = 0.6 * kGiB, kWholeContext = 1.5 * kGiB;
// NCCL's buffers of one communicator: 4 MiB, 4.7 MiB and 0.5 MiB a connection for its three protocols
// (nccl/src/init.cc), with some four connections of each of some ten channels.
constexpr double kGroup = 0.4 * kGiB;
// Kernels that CUDA lets a host launch ahead of the device, and those of a layer of nanotron, counted in its source.
constexpr double kLaunchesAhead = 1024, kForwardLaunches = 30, kBackwardLaunches = 50;

double product_share(const Gpu& gpu, const Constants& constants) {
  if (gpu.generation == Generation::kHopper) return constants.hopper_product;
  return gpu.generation == Generation::kBlackwell ? constants.blackwell_product : constants.ampere_product;
}

// Share of a layer's forward pass that the host is ahead when it waits at the end of a stage's pass.
double ahead_share(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                   const Constants& constants) {
  const double flops = 2 * device_layer_parameters(shape, plan) * device_tokens(shape, plan);
  const double device_s = flops / (machine.gpu.half_flops * product_share(machine.gpu, constants));
  return std::max(0.0, 1 - constants.eager_layer_s / device_s);
}

// A row-parallel product's undivided output is freed when its collective is launched, but its memory is not given out
// again until the collective has run. How many wait is how far the host is ahead. nanotron's host waits for the device
// at each transfer between stages (nanotron/parallel/pipeline_parallel/p2p.py, _send_meta), and never without stages.
double waiting_outputs(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                       const Constants& constants, std::int32_t stage) {
  const double each = framework_memory(plan).row_outputs * layer_activations(shape, plan).row_output;
  const double layers = stage_layers(shape, plan, stage);
  if (each == 0) return 0;
  if (plan.stages > 1) return each * layers * ahead_share(machine, shape, plan, constants);
  const double forward = std::min(layers, kLaunchesAhead / kForwardLaunches);
  const double left = std::max(0.0, kLaunchesAhead - forward * kForwardLaunches);
  const double backward = plan.microbatches() > 1 ? std::min(layers, left / kBackwardLaunches) : 0;
  return each * (forward + backward);
}

// nanotron gathers all updated parameters in one flat buffer, larger than any free segment. Later activations lie in
// it, as far as the moments, which the first step allocates in freed activations, have not taken as much away.
double flat_buffers(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage) {
  if (!framework_memory(plan).gathers_flat || plan.sharded == Sharded::kNothing || plan.replicas == 1) return 0;
  const double parameters = stage_parameters(shape, plan, stage);
  const double replicas = optimizer_shards(plan);
  return std::max(0.0, 2 * parameters * (1 + 1 / replicas) - 8 * parameters / replicas);
}

// The gradient of the embedding is larger than the free segments of a stage that has no logits.
double embedding_gradient(const ModelShape& shape, const UniformPlan& plan, std::int32_t stage) {
  if (!framework_memory(plan).gathers_flat || stage != 0 || plan.stages == 1) return 0;
  return 2 * padded_vocabulary(shape, plan) * shape.hidden / plan.tensor;
}

}  // namespace

double held_bytes(const Machine& machine, const ModelShape& shape, const UniformPlan& plan, const Constants& constants,
                  std::int32_t stage, double allocated) {
  return (1 + kFragments) * allocated + waiting_outputs(machine, shape, plan, constants, stage) +
         flat_buffers(shape, plan, stage) + embedding_gradient(shape, plan, stage) +
         2 * framework_memory(plan).bucket_elements;
}

double reserved_bytes(const Machine& machine, const UniformPlan& plan, double allocated, double held) {
  const double limit = static_cast<double>(machine.gpu.memory) - process_bytes(plan);
  if (held <= limit) return held;
  return std::max(allocated, ((1 + kFragments) * allocated + limit) / 2);
}

double process_bytes(const UniformPlan& plan) {
  const FrameworkMemory framework = framework_memory(plan);
  const int degrees = (plan.replicas > 1) + (plan.tensor > 1) + (plan.stages > 1) + (plan.context > 1);
  const double context = framework.loads_all_kernels ? kWholeContext : kContext;
  return context + degrees * framework.groups_per_degree * kGroup;
}

double chance_to_fit(const Machine& machine, double needed) {
  const double distance = static_cast<double>(machine.gpu.memory) - needed;
  return 0.5 * std::erfc(-distance / (kSpread * needed) / std::sqrt(2.0));
}

}  // namespace trimtab::estimates
