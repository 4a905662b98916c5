#include "solvers/h3t/layer_profile.hpp"

#include <algorithm>

namespace trimtab::tuner::h3t {
namespace {

struct Field {
  const char* name;
  std::int64_t LayerProfile::*value;
};

constexpr std::array<Field, 16> kAmounts{{
    {"optimizer_step", &LayerProfile::optimizer_step},
    {"forward_no_grad", &LayerProfile::forward_no_grad},
    {"forward_with_grad", &LayerProfile::forward_with_grad},
    {"backward", &LayerProfile::backward},
    {"prefetch_hidden", &LayerProfile::prefetch_hidden},
    {"offload_hidden", &LayerProfile::offload_hidden},
    {"prefetch_parameters", &LayerProfile::prefetch_parameters},
    {"gather_parameters", &LayerProfile::gather_parameters},
    {"scatter_gradients", &LayerProfile::scatter_gradients},
    {"offload_gradients", &LayerProfile::offload_gradients},
    {"input", &LayerProfile::input},
    {"partitioned_parameters", &LayerProfile::partitioned_parameters},
    {"gathered_parameters", &LayerProfile::gathered_parameters},
    {"partitioned_gradients", &LayerProfile::partitioned_gradients},
    {"gathered_gradients", &LayerProfile::gathered_gradients},
    {"host_bytes", &LayerProfile::host_bytes},
}};

struct Change {
  const char* name;
  MemoryChange LayerProfile::*value;
};

constexpr std::array<Change, 3> kChanges{{{"no_grad", &LayerProfile::no_grad},
                                          {"with_grad", &LayerProfile::with_grad},
                                          {"backward_change", &LayerProfile::backward_change}}};

Status check_layer(const LayerProfile& layer, const std::string& at) {
  for (const Field& field : kAmounts) {
    if (layer.*field.value < 0) {
      return bad_input(at + field.name + ": needs 0 or more, found " + std::to_string(layer.*field.value));
    }
  }
  for (const Change& change : kChanges) {
    const MemoryChange& of = layer.*change.value;
    if (of.peak < std::max<Bytes>(of.delta, 0)) {
      return bad_input(at + change.name + ".peak: needs at least its delta " + std::to_string(of.delta) +
                       " and 0, found " + std::to_string(of.peak));
    }
  }
  const Bytes left = layer.with_grad.delta + layer.backward_change.delta + layer.input;
  if (layer.no_grad.delta != 0 || left != 0) {
    return bad_input(at + "no_grad.delta and with_grad.delta + backward_change.delta + input: need 0, found " +
                     std::to_string(layer.no_grad.delta) + " and " + std::to_string(left) +
                     ": what a layer keeps over a whole step is no part of its profile");
  }
  return {};
}

template <std::size_t kCount>
std::array<LayerSwitches, kCount> combinations(bool synchronized) {
  std::array<LayerSwitches, kCount> all{};
  std::size_t count = 0;
  for (unsigned bits = 0; bits < 128; ++bits) {
    const LayerSwitches switches = switches_of(bits);
    if (switches.valid() && (switches.segment_sync || !synchronized)) all[count++] = switches;
  }
  return all;
}

}  // namespace

Status check_layers(std::span<const LayerProfile> layers) {
  if (layers.empty()) return bad_input("layers: needs at least one");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    TRIMTAB_TRY_STATUS(check_layer(layers[i], "layers[" + std::to_string(i) + "]."));
  }
  return {};
}

const std::array<LayerSwitches, kCombinations>& all_combinations() {
  static const auto all = combinations<kCombinations>(false);
  return all;
}

const std::array<LayerSwitches, kSynchronizedCombinations>& synchronized_combinations() {
  static const auto all = combinations<kSynchronizedCombinations>(true);
  return all;
}

}  // namespace trimtab::tuner::h3t
