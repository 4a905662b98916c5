#pragma once

// What recompute of whole name groups costs and saves in any range of the model, from prefix sums. One table for a
// setting and a set of groups; immutable once built.

#include <cstdint>
#include <vector>

#include "tables.hpp"

namespace trimtab::tuner::aceso {

using GroupSet = std::uint64_t;  // a bit for each name group; models of more than 64 names do not use these tables
inline constexpr std::size_t kMaxGroups = 64;

class RecomputeTable {
 public:
  RecomputeTable(const Tables& tables, const SettingTable& setting, GroupSet taken);

  struct Sums {
    double time = 0;   // us of recomputed operators
    double saved = 0;  // MiB
    double back = 0;   // MiB that comes back, the kept checkpoints included
  };
  [[nodiscard]] GroupSet taken() const { return taken_; }
  [[nodiscard]] const Sums& before(std::int32_t op) const { return sums_[op]; }
  // The last operator of the run of saved activations that `op` is in; -1 where its activation is not saved.
  [[nodiscard]] std::int32_t run_end(std::int32_t op) const { return run_end_[op]; }
  // MiB of the run that ends at `op`, from the run's begin.
  [[nodiscard]] double run(std::int32_t op) const { return run_.at(op); }
  [[nodiscard]] double largest_run(std::int32_t begin, std::int32_t end) const { return run_(begin, end); }

 private:
  GroupSet taken_;
  std::vector<Sums> sums_;  // operators + 1
  std::vector<std::int32_t> run_end_;
  RangeMax run_;
};

}  // namespace trimtab::tuner::aceso
