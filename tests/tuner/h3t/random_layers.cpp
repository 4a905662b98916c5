#include "random_layers.hpp"

#include <algorithm>

namespace trimtab::tuner::h3t::test {
namespace {

LayerProfile random_layer(Random& random) {
  LayerProfile layer;
  const Ticks compute = random.between(20, 120);
  layer.optimizer_step = random.between(0, 1) == 0 ? random.between(0, 20) : random.between(20, 150);
  layer.forward_no_grad = compute;
  layer.forward_with_grad = compute + random.between(0, 3);
  layer.backward = 2 * compute + random.between(-5, 5);
  layer.prefetch_hidden = random.between(5, 60);
  layer.offload_hidden = random.between(5, 60);
  layer.prefetch_parameters = random.between(5, 60);
  layer.gather_parameters = random.between(2, 60);
  layer.scatter_gradients = random.between(2, 60);
  layer.offload_gradients = random.between(5, 60);
  layer.input = random.between(5, 50);
  const Bytes share = random.between(3, 30);
  layer.partitioned_parameters = layer.partitioned_gradients = share;
  layer.gathered_parameters = layer.gathered_gradients = 8 * share;
  const Bytes activations = random.between(50, 400);
  layer.no_grad = {0, random.between(20, 120)};
  layer.with_grad = {activations, activations + random.between(0, 30)};
  layer.backward_change = {-activations - layer.input, random.between(0, 60)};
  layer.host_bytes = 7 * share;
  return layer;
}

}  // namespace

std::vector<LayerProfile> random_layers(Random& random, std::int32_t count, bool equal) {
  std::vector<LayerProfile> layers;
  for (std::int32_t i = 0; i < count; ++i) layers.push_back(equal && i > 0 ? layers.front() : random_layer(random));
  return layers;
}

bool can_be(const LayerProfile& layer) {
  for (const std::int64_t amount :
       {layer.optimizer_step, layer.forward_no_grad, layer.forward_with_grad, layer.backward, layer.prefetch_hidden,
        layer.offload_hidden, layer.prefetch_parameters, layer.gather_parameters, layer.scatter_gradients,
        layer.offload_gradients, layer.input, layer.partitioned_parameters, layer.gathered_parameters,
        layer.partitioned_gradients, layer.gathered_gradients, layer.host_bytes}) {
    if (amount < 0) return false;
  }
  for (const MemoryChange& change : {layer.no_grad, layer.with_grad, layer.backward_change}) {
    if (change.peak < std::max<Bytes>(change.delta, 0)) return false;
  }
  return layer.no_grad.delta == 0 && layer.with_grad.delta + layer.backward_change.delta + layer.input == 0;
}

Bytes random_limit(Random& random, std::span<const LayerProfile> layers, Fabric fabric) {
  SegmentSimulator simulator(layers, fabric);
  const Bytes low = simulator.step(Switching(layers.size(), kAllOn)).peak;
  const Bytes high = simulator.step(Switching(layers.size(), LayerSwitches{})).peak;
  return random.between(low - low / 20, std::max(low, high));
}

Problem random_problem(Random& random, std::span<const LayerProfile> layers) {
  Problem problem{layers, random.below(2) == 0 ? Fabric::kNvlink : Fabric::kPcie};
  problem.microbatches = static_cast<std::int32_t>(random.between(1, 3));
  problem.in_flight = static_cast<std::int32_t>(random.between(1, problem.microbatches));
  const Bytes low = solution_of(problem, Switching(layers.size(), kAllOn)).outcome.peak;
  const Bytes high = solution_of(problem, Switching(layers.size(), LayerSwitches{})).outcome.peak;
  problem.device_limit = random.between(low - low / 20, std::max(low, high));
  Bytes hidden = 0;
  Bytes fixed = 0;
  for (const LayerProfile& layer : layers) {
    hidden += problem.in_flight * layer.input;
    fixed += layer.host_bytes;
  }
  if (random.below(2) == 0) problem.host_limit = fixed + random.between(0, hidden);
  return problem;
}

}  // namespace trimtab::tuner::h3t::test
