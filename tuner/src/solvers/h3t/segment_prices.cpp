#include "solvers/h3t/segment_prices.hpp"

#include <initializer_list>
#include <vector>

namespace trimtab::tuner::h3t {
namespace {

unsigned bits(std::initializer_list<bool> values) {
  unsigned number = 0;
  for (const bool value : values) number = number << 1U | (value ? 1U : 0U);
  return number;
}

// What the next forward segment releases before anything else.
Bytes released_bytes(const LayerProfile& layer, const LayerSwitches& own) {
  if (!own.partition_parameters) return 0;
  return (own.rematerialize ? layer.gathered_parameters : 0) + (own.lazy_prefetch ? layer.partitioned_parameters : 0);
}

SegmentPrice simulate_forward(const Neighbourhood& at, Fabric fabric, const LayerSwitches& own, bool lazy_after) {
  std::vector<LayerProfile> layers{*at.layer};
  Switching switches{own};
  if (at.after != nullptr) {
    layers.push_back(*at.after);
    switches.emplace_back();
    switches.back().lazy_prefetch = lazy_after;
  }
  SegmentSimulator simulator(layers, fabric);
  simulator.begin(switches, 0);
  simulator.forward(0);
  if (at.after == nullptr) simulator.forward_tail(0);
  simulator.synchronize();
  return {simulator.runtime(), simulator.peak(), simulator.delta()};
}

SegmentPrice simulate_backward(const Neighbourhood& at, Fabric fabric, const LayerSwitches& before,
                               const LayerSwitches& own, bool lazy_after) {
  std::vector<LayerProfile> layers;
  Switching switches;
  if (at.before != nullptr) {
    layers.push_back(*at.before);
    switches.push_back(before);
  }
  const auto middle = static_cast<std::int32_t>(layers.size());
  layers.push_back(*at.layer);
  switches.push_back(own);
  if (at.after != nullptr) {
    layers.push_back(*at.after);
    switches.emplace_back();
    switches.back().lazy_prefetch = lazy_after;
  }
  SegmentSimulator simulator(layers, fabric);
  simulator.begin(switches, 0);
  if (at.after == nullptr) {
    simulator.backward_head(middle);
    simulator.synchronize();
  }
  simulator.backward(middle);
  if (at.before == nullptr) simulator.backward_tail(middle);
  simulator.synchronize();
  return {simulator.runtime(), simulator.peak(), simulator.delta()};
}

}  // namespace

SegmentPrice SegmentPrices::forward(const LayerSwitches& own, bool lazy_after) {
  // A layer that is not the last releases its parameters in the next segment: they are no part of its own.
  const bool last = at_.after == nullptr;
  LayerSwitches read = own;
  if (!last) read.partition_parameters = read.lazy_prefetch = false;
  const unsigned slot = bits({read.partition_parameters, read.lazy_prefetch, own.rematerialize, own.offload_hidden,
                              own.economical_forward, lazy_after});
  if (!forward_[slot]) forward_[slot] = simulate_forward(at_, fabric_, read, lazy_after);
  SegmentPrice price = *forward_[slot];
  if (!last) price.delta -= released_bytes(*at_.layer, own);
  return price;
}

// In front of a backward segment the device holds, beyond the level behind the forward segment, what was brought back
// for it and the gradients that the layer after has just computed.
SegmentPrice SegmentPrices::backward(const LayerSwitches& before, const LayerSwitches& own, bool lazy_after) {
  const bool last = at_.after == nullptr;
  const bool first = at_.before == nullptr;
  LayerSwitches read = own;
  if (!last && !first) read.partition_parameters = read.lazy_prefetch = read.offload_hidden = false;
  const unsigned slot = bits({before.partition_parameters, before.lazy_prefetch, before.rematerialize,
                              before.offload_hidden, read.partition_parameters, read.lazy_prefetch, own.rematerialize,
                              read.offload_hidden, own.economical_backward, lazy_after});
  if (!backward_[slot]) backward_[slot] = simulate_backward(at_, fabric_, before, read, lazy_after);
  SegmentPrice price = *backward_[slot];
  if (last) return price;
  price.peak +=
      released_bytes(*at_.layer, own) + (own.offload_hidden ? at_.layer->input : 0) + at_.after->gathered_gradients;
  return price;
}

}  // namespace trimtab::tuner::h3t
