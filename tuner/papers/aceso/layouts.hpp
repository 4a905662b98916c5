#pragma once

// What Aceso's published code knows of operators by their names: how it lays their tensors over the devices of a stage
// and what a change of layout between neighbours costs, how much of their activation counts, where a kept checkpoint
// is, and which are never chosen for recompute. Source: microsoft/SuperScaler, EuroSys24AE, search/. Pure functions.

#include <array>
#include <cstdint>
#include <string_view>

namespace trimtab::tuner::aceso {

enum class LayoutRule : std::uint8_t {
  kAny,         // whatever comes
  kReplicated,  // tp replicas, samples split along the middle dimension: tp,[1,dp,1]
  kColumn,      // 1,[1,dp,tp]
  kHeads,       // 1,[dp,tp,1]
  kBatch,       // tp,[dp,1,1]
};

struct OperatorLayouts {
  LayoutRule input[2] = {LayoutRule::kAny, LayoutRule::kAny};  // by sharding choice: default, alternate
  LayoutRule output[2] = {LayoutRule::kAny, LayoutRule::kAny};
};

[[nodiscard]] OperatorLayouts layouts_of(std::string_view name);

enum class Primitive : std::uint8_t { kNone, kAllGather, kAllToAll };

struct Layout {
  std::int32_t replicas = 1;
  std::array<std::int32_t, 3> split{1, 1, 1};
  bool operator==(const Layout&) const = default;
};

// REQUIRES: rule is not kAny.
[[nodiscard]] Layout layout(LayoutRule rule, std::int32_t tp, std::int32_t dp);

// One step from a layout towards another.
struct Reshard {
  Primitive forward = Primitive::kNone;
  Primitive backward = Primitive::kNone;
  std::int32_t group = 1;
};

// Takes one step; `from` becomes the layout after it. False where nothing (more) is to be done.
[[nodiscard]] bool step_towards(const Layout& to, Layout& from, Reshard& step);

struct NameFacts {
  double activation_factor = 1;   // of the measured activation: 1.5 and 0 are what the code sets by name
  bool starts_layer = false;      // the output of the operator before it is the checkpoint that is kept
  bool never_recomputed = false;  // not taken as the first of a pair of recomputed operators
  bool operator==(const NameFacts&) const = default;
};

[[nodiscard]] NameFacts name_facts(std::string_view name);

}  // namespace trimtab::tuner::aceso
