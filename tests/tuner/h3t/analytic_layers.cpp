#include "analytic_layers.hpp"

#include <algorithm>
#include <cmath>

namespace trimtab::tuner::h3t::test {
namespace {

constexpr double kTokens = 512;  // of a sample

std::int64_t whole(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

}  // namespace

const std::vector<Machine>& machines() {
  static const std::vector<Machine> all{{"8 x 2080 Ti", Fabric::kPcie, 40e12, 6e9, 11e9, 12e9, 8},
                                        {"8 x A100", Fabric::kNvlink, 140e12, 200e9, 24e9, 25e9, 8}};
  return all;
}

const std::vector<TransformerSize>& sizes() {
  static const std::vector<TransformerSize> all{
      {"BERT-1.8B", 48, 1024, 16384, 32}, {"BERT-6B", 48, 1024, 65536, 128}, {"BERT-13B", 48, 2048, 65536, 128}};
  return all;
}

const TransformerSize& hundred_billion() {
  static const TransformerSize size{"BERT-100B", 56, 12288, 49152, 96};
  return size;
}

LayerProfile analytic_layer(const Machine& machine, const TransformerSize& size, double samples) {
  const double parameters = 4 * size.hidden * size.hidden + 2 * size.hidden * size.inner;
  const double tokens = samples * kTokens;
  const double forward_s = (2 * parameters * tokens + 4 * kTokens * size.hidden * tokens) / machine.flops + 200e-6;
  const double gathered = 2 * parameters;
  const double partitioned = gathered / machine.devices;
  const double input = 2 * tokens * size.hidden;
  // Half precision: a dozen tensors of the hidden size, two of the inner size, scores and their probabilities.
  const double activations = 2 * tokens * (12 * size.hidden + 2 * size.inner + 2 * size.heads * kTokens);
  const double working = 2 * tokens * (size.inner + size.heads * kTokens);
  const double gather_s = gathered * (machine.devices - 1) / machine.devices / machine.gather_bytes_per_s + 30e-6;
  const auto copy_ns = [&machine](double bytes) { return whole((bytes / machine.host_bytes_per_s + 15e-6) * 1e9); };
  LayerProfile layer;
  layer.optimizer_step = whole(partitioned / 2 * 28 / machine.optimizer_bytes_per_s * 1e9);
  layer.forward_no_grad = whole(forward_s * 1e9);
  layer.forward_with_grad = whole(forward_s * 1.01e9);
  layer.backward = whole(forward_s * 2e9);
  layer.prefetch_hidden = layer.offload_hidden = copy_ns(input);
  layer.prefetch_parameters = layer.offload_gradients = copy_ns(partitioned);
  layer.gather_parameters = layer.scatter_gradients = whole(gather_s * 1e9);
  layer.input = whole(input);
  layer.partitioned_parameters = layer.partitioned_gradients = whole(partitioned);
  layer.gathered_parameters = layer.gathered_gradients = whole(gathered);
  layer.no_grad = {0, whole(working + 2 * input)};
  layer.with_grad = {whole(activations), whole(activations + working)};
  layer.backward_change = {-whole(activations) - layer.input, whole(working + input)};
  layer.host_bytes = whole(partitioned * 8);
  return layer;
}

std::vector<LayerProfile> spread_layers(const LayerProfile& layer, std::int32_t count, double spread, Random& random) {
  std::vector<LayerProfile> layers;
  for (std::int32_t i = 0; i < count; ++i) {
    LayerProfile one = layer;
    const auto factor = [&] { return 1 + spread * (2 * random.uniform() - 1); };
    const auto change = [](std::int64_t& value, double by) { value = whole(static_cast<double>(value) * by); };
    for (auto field :
         {&LayerProfile::optimizer_step, &LayerProfile::backward, &LayerProfile::prefetch_hidden,
          &LayerProfile::offload_hidden, &LayerProfile::prefetch_parameters, &LayerProfile::gather_parameters,
          &LayerProfile::scatter_gradients, &LayerProfile::offload_gradients, &LayerProfile::input}) {
      change(one.*field, factor());
    }
    const double forward = factor();
    change(one.forward_no_grad, forward);
    change(one.forward_with_grad, forward);
    const double size = factor();
    for (auto field :
         {&LayerProfile::partitioned_parameters, &LayerProfile::gathered_parameters,
          &LayerProfile::partitioned_gradients, &LayerProfile::gathered_gradients, &LayerProfile::host_bytes}) {
      change(one.*field, size);
    }
    change(one.no_grad.peak, factor());
    const Bytes working = one.with_grad.peak - one.with_grad.delta;
    change(one.with_grad.delta, factor());
    one.with_grad.peak = one.with_grad.delta + working;
    one.backward_change.delta = -one.with_grad.delta - one.input;
    layers.push_back(one);
  }
  return layers;
}

Bytes limit_at(std::span<const LayerProfile> layers, Fabric fabric, double share) {
  SegmentSimulator simulator(layers, fabric);
  const Bytes low = simulator.step(Switching(layers.size(), kAllOn)).peak;
  const Bytes high = simulator.step(Switching(layers.size(), LayerSwitches{})).peak;
  return low + whole(static_cast<double>(high - low) * share);
}

}  // namespace trimtab::tuner::h3t::test
