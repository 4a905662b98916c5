#pragma once

// Random profiles of a few layers, small enough that every plan can be priced.

#include <random>

#include "papers/galvatron/profile.hpp"

namespace trimtab::tuner::galvatron {

inline Profile random_profile(std::mt19937_64& random, int layers, int devices, bool half_precision) {
  const auto amount = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  Profile profile;
  for (int k = 0; k < 2; ++k) {
    LayerType type;
    type.cost_key = "layer" + std::to_string(k);
    type.forward_ms = amount(0.5, 3);
    type.parameter_mib = amount(10, 80);
    type.boundary_mib = amount(1, 5);
    type.sequence_hidden = type.boundary_mib * kMiB / (half_precision ? 2 : 4);
    const double kept = amount(20, 100);
    type.kept_mib = {{1, kept}, {2, kept * 0.6}, {4, kept * 0.35}, {8, kept * 0.2}};
    type.recomputed_mib = amount(1, 8);
    profile.types.push_back(type);
  }
  for (int i = 0; i < layers; ++i) profile.type_of.push_back(i < layers / 2 ? 0 : 1);
  for (std::int32_t ranks = 2; ranks <= devices; ranks *= 2) {
    profile.all_reduce[{1, ranks, true}] = amount(0.02, 0.2);
    profile.all_reduce[{1, ranks, false}] = amount(0.02, 0.2);
  }
  profile.transfer = {{2, amount(0.01, 0.1)}, {4, amount(0.01, 0.1)}};
  profile.slowdown = amount(1, 1.4);
  profile.devices = profile.devices_per_node = devices;
  profile.half_precision = half_precision;
  profile.facts.whole = profile.facts.first = profile.facts.last = {amount(10, 100), amount(1, 10)};
  return profile;
}

}  // namespace trimtab::tuner::galvatron
