#pragma once

// The measured numbers behind the aceso cost model, in the units of its published code: times in microseconds, sizes in
// MiB with three decimals. Plain values.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "papers/aceso/layouts.hpp"
#include "schema/cost.hpp"

namespace trimtab::tuner::aceso {

struct Row {
  double forward = 0, backward = 0;  // us of one call
  double input = 0, output = 0;      // MiB that cross the operator's edge
  double weight = 0, activation = 0;
  double forward_reserve = 0, backward_reserve = 0;
  bool measured = false;
};

// What the published code takes for an operator that was not measured, so that it is never chosen.
[[nodiscard]] constexpr Row unmeasured_row() {
  return {1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, 1e6, false};
}

inline constexpr double kMiB = 1048576.0;
inline constexpr double kForbiddenMs = 100000;  // a layout change that was not measured

// Point-to-point bandwidths by size: 1, 2, 4 ... MiB.
class LinkTable {
 public:
  LinkTable() = default;
  explicit LinkTable(std::vector<double> gib_per_s) : gib_per_s_(std::move(gib_per_s)) {}
  // us for a tensor of so many MiB, with the published code's choice of the entry and of the unit.
  [[nodiscard]] double time(double mib) const;
  [[nodiscard]] bool empty() const { return gib_per_s_.empty(); }

 private:
  std::vector<double> gib_per_s_;
};

struct Profile {
  struct Key {
    std::int32_t samples, tp;
    bool alternate;
    auto operator<=>(const Key&) const = default;
  };
  std::map<std::string, std::map<Key, Row>, std::less<>> rows;  // by cost_key
  LinkTable intra_node, inter_node;
  std::map<std::tuple<Primitive, std::int32_t, std::int64_t>, double> collectives;  // primitive, group, MiB: us

  [[nodiscard]] double collective(Primitive primitive, std::int32_t group, double mib) const;  // us
};

// Keeps what the model's operators use. `dtype` is the model's.
[[nodiscard]] Profile profile_from_costs(std::span<const Cost> costs, const std::string& dtype);

// Three decimals of a MiB, as the published tables have them.
[[nodiscard]] double published_mib(double bytes);

}  // namespace trimtab::tuner::aceso
