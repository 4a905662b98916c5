#pragma once

// What Aceso's published code knows of operators by their names: how much of their activation counts, where a kept
// checkpoint is, and which are never chosen for recompute. Source: microsoft/SuperScaler, EuroSys24AE, search/.
// Pure functions.

#include <string_view>

namespace trimtab::tuner::aceso {

struct NameFacts {
  double activation_factor = 1;   // of the measured activation: 1.5 and 0 are what the code sets by name
  bool starts_layer = false;      // the output of the operator before it is the checkpoint that is kept
  bool never_recomputed = false;  // not taken as the first of a pair of recomputed operators
  bool operator==(const NameFacts&) const = default;
};

[[nodiscard]] NameFacts name_facts(std::string_view name);

}  // namespace trimtab::tuner::aceso
