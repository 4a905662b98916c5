// What people choose without a planner, and what would help where nothing fits.

#include <algorithm>
#include <tuple>

#include "estimates/find.hpp"
#include "find/space.hpp"

namespace trimtab::estimates {

namespace {

// Of equal ones the faster: whoever follows a rule tries what it leaves open.
template <typename Key>
const PricedPlan* least_by(const Found& found, std::int32_t devices, Key key) {
  const PricedPlan* best = nullptr;
  for (const PricedPlan& one : found.plans) {
    if (one.plan.devices() != devices) continue;
    if (best == nullptr || key(one.plan) < key(best->plan)) best = &one;
  }
  return best;
}

double recomputation(const UniformPlan& plan) {
  return static_cast<double>(plan.recomputed) * (plan.recomputed == Recomputed::kLayer ? plan.recomputed_share : 0.1);
}

std::int32_t most_devices(const Found& found) {
  std::int32_t most = 0;
  for (const PricedPlan& one : found.plans) most = std::max(most, one.plan.devices());
  return most;
}

bool fits_somewhere(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                    const Pricing& pricing) {
  bool any = false;
  const auto try_layout = [&](UniformPlan plan) {
    Machine used = machine;
    used.devices = plan.devices();
    for (const Recomputed kind : space_of(options.target).recomputed) {
      if (!options.recomputed.empty() && std::ranges::count(options.recomputed, kind) == 0) continue;
      plan.recomputed = kind;
      any = any || pricing.memory(used, shape, plan).fits >= options.least_chance;
    }
  };
  each_layout(machine, shape, options, [&](UniformPlan plan) {
    if (!any) try_layout(plan);
    plan.offloaded_optimizer = true;
    if (!any && options.offload && check_target(plan, shape, options.target).ok()) try_layout(plan);
  });
  return any;
}

}  // namespace

const PricedPlan* least_split(const Found& found) {
  return least_by(found, most_devices(found), [](const UniformPlan& plan) {
    return std::tuple(plan.tensor * plan.stages * plan.context, recomputation(plan), plan.stages, -plan.microbatch,
                      plan.sharded);
  });
}

const PricedPlan* node_then_stages(const Found& found, const Machine& machine) {
  const std::int32_t devices = most_devices(found);
  std::int32_t tensor = 0;
  for (const PricedPlan& one : found.plans) {
    if (one.plan.devices() == devices && one.plan.tensor <= std::min(8, machine.devices_per_node)) {
      tensor = std::max(tensor, one.plan.tensor);
    }
  }
  return least_by(found, devices, [&](const UniformPlan& plan) {
    return std::tuple(plan.tensor != tensor, plan.stages, plan.context, recomputation(plan), -plan.microbatch,
                      plan.sharded);
  });
}

std::vector<Remedy> remedies(const Machine& machine, const ModelShape& shape, const FindOptions& options,
                             const Pricing& pricing) {
  constexpr std::int32_t kMostTimes = 64;
  std::vector<Remedy> found;
  FindOptions offloading = options;
  offloading.offload = true;
  if (!options.offload && fits_somewhere(machine, shape, offloading, pricing)) {
    found.push_back({Remedy::Kind::kOffload, 0, {}});
  }
  for (std::int32_t times = 2; times <= kMostTimes; times *= 2) {
    Machine larger = machine;
    larger.devices *= times;
    larger.devices_per_node = std::max(machine.devices_per_node, std::min(larger.devices, machine.gpu.linked));
    if (!fits_somewhere(larger, shape, options, pricing)) continue;
    found.push_back({Remedy::Kind::kDevices, larger.devices, {}});
    break;
  }
  // Of the GPUs with more memory, the one with the least of them.
  std::vector<Gpu> larger(gpus().begin(), gpus().end());
  std::erase_if(larger, [&](const Gpu& gpu) { return gpu.memory <= machine.gpu.memory; });
  std::ranges::stable_sort(larger, {}, &Gpu::memory);
  for (const Gpu& gpu : larger) {
    Machine other = machine;
    other.gpu = gpu;
    if (!fits_somewhere(other, shape, options, pricing)) continue;
    found.push_back({Remedy::Kind::kGpu, 0, gpu.name});
    break;
  }
  for (std::int32_t sequence = shape.sequence / 2; sequence >= 512; sequence /= 2) {
    ModelShape shorter = shape;
    shorter.sequence = sequence;
    if (!fits_somewhere(machine, shorter, options, pricing)) continue;
    found.push_back({Remedy::Kind::kSequence, sequence, {}});
    break;
  }
  return found;
}

}  // namespace trimtab::estimates
