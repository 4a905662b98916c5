#include "solvers/h3t/layer_profile.hpp"

namespace trimtab::tuner::h3t {
namespace {

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

const std::array<LayerSwitches, kCombinations>& all_combinations() {
  static const auto all = combinations<kCombinations>(false);
  return all;
}

const std::array<LayerSwitches, kSynchronizedCombinations>& synchronized_combinations() {
  static const auto all = combinations<kSynchronizedCombinations>(true);
  return all;
}

}  // namespace trimtab::tuner::h3t
