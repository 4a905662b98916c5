#pragma once

// What a job's ranks have measured again in a pause, and what it makes of prices: it takes the place of what was
// measured before the change and of what probes have let one expect, and is never averaged with either. What was
// measured before stays in the database. Pure; any thread.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuning/hardware/doubtful.hpp"

namespace trimtab::coordinator {

// One cost, in nanoseconds.
struct MeasuredCost {
  CostKey key;
  NodePair pair;             // over the link of these two nodes alone; empty names: over all of the level
  std::int32_t device = -1;  // on this one; less than 0: a message
  double before_ns = 0;
  double expected_ns = 0;
  std::vector<std::int64_t> values;  // of all ranks that were asked about
  double others_ns = 0;              // of a device: what the others took meanwhile, their middle; 0 = there are none

  [[nodiscard]] double now_ns() const;  // the mean. REQUIRES: there are values
};

// After one drift.
struct Remeasured {
  std::int32_t doubtful = 0;  // costs that it had made so
  std::int64_t step = 0;      // before which ranks measured; 0 = they did not
  double took_ms = 0;         // of the slowest rank
  std::vector<MeasuredCost> costs;
  std::string left;  // why others were not; empty: all were
};

// What one rank tells. Items are those of the request, by their places.
struct RankMeasured {
  struct Item {
    std::uint32_t item = 0;
    std::vector<std::vector<std::int64_t>> costs;  // the values of each of the item's
    std::string error;
  };
  std::uint64_t number = 0;
  std::int64_t step = 0;
  Nanoseconds took{0};
  std::vector<Item> items;
  std::string error;  // why it has measured nothing
};

// Of all ranks that have answered. Values that are none (0, other than asked for) are left out.
[[nodiscard]] Remeasured measured_by(const Doubtful& doubtful, const std::map<std::int32_t, RankMeasured>& ranks,
                                     const std::map<std::int32_t, double>& slow_devices);

// "4 of 12 doubtful costs were measured again before step 700, in 0.8 s: all_reduce … 12 ms (21 ms expected, 5 ms
// before), …".
[[nodiscard]] std::string describe(const Remeasured& again);
[[nodiscard]] std::string describe(const MeasuredCost& one);  // "… 12 ms (21 ms expected, 5 ms before)"

// Costs over a level that has changed take the place of all others of their key, as a benchmark's.
void supersede(const std::vector<MeasuredCost>& again, std::vector<Cost>& costs);
// Changes of links that were measured, as those measurements say, the closest in squares: what was not measured of them
// follows.
[[nodiscard]] LinkChanges as_measured(LinkChanges changes, const std::vector<MeasuredCost>& again);
// The same of devices: the middle one of their operators' speeds.
[[nodiscard]] std::map<std::int32_t, double> as_measured(std::map<std::int32_t, double> slow_devices,
                                                         const std::vector<MeasuredCost>& again);

}  // namespace trimtab::coordinator
