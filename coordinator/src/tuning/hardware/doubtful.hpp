#pragma once

// Which costs a change of links or devices has made doubtful, and which of them a job measures again in a pause between
// two of its steps. Pure; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "schema/cost.hpp"
#include "tuning/hardware/link_changes.hpp"

namespace trimtab::coordinator {

struct SearchTask;

// In nanoseconds.
struct DoubtfulCost {
  CostKey key;
  double before_ns = 0;    // as what prices plans says, measured before the change
  double expected_ns = 0;  // as probes let one expect
};

// What ranks measure at once.
struct DoubtfulItem {
  std::vector<DoubtfulCost> costs;  // of an operator both passes
  std::vector<std::int32_t> ranks;  // that measure it; empty: all, in groups beside each other, as benchmarks do
  NodePair pair;                    // whose link has changed; empty names: all links of the key's level
  std::int32_t device = -1;         // that has changed; less than 0: none, a link
};

struct Doubtful {
  std::int32_t costs = 0;           // that the job's plans rest on, that are known, and that have become doubtful
  std::vector<DoubtfulItem> items;  // what of them fits into the pause, the most weighty first
  std::string request_json;         // the items for the ranks (docs/protocols.md, "Change is measured"); empty: none
};

// The task's costs, links and slow devices, and its incumbent plan. An item weighs what its costs have changed by, as
// probes say, or, where counters doubt a link, all of it: of an operator in a step of the incumbent, of a message once,
// four times as much where the incumbent has such a group. Items are taken by weight as long as they fit into the
// pause. Fails where the task's model or cluster cannot be read.
[[nodiscard]] Result<Doubtful> doubtful_costs(const SearchTask& task, Nanoseconds pause);

}  // namespace trimtab::coordinator
