#pragma once

// All that a cost database holds of some costs: the folded sums, and the batches that are not folded yet.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "costs/cost_tables.hpp"
#include "schema/cost.hpp"
#include "schema/database.hpp"

namespace trimtab::cost_tables {

// What is wanted; what is empty or unset wants everything.
struct CostQuery {
  std::string fingerprint;  // hash
  std::string source;
  std::optional<std::set<std::int64_t>> keys;
};
// Calls `each` with every value, in no order and several times a place; the caller holds a snapshot.
[[nodiscard]] Status read_values(const Database& database, const CostQuery& query,
                                 const std::function<void(const CostPlace&, const Statistics&)>& each);

// Where there are values; the caller holds a snapshot.
[[nodiscard]] Result<std::set<CostPlace>> read_places(const Database& database);

// Keys by id; of these kinds, or all.
[[nodiscard]] Result<std::map<std::int64_t, CostKey>> read_keys(const Database& database,
                                                                const std::vector<CostKind>& kinds);

}  // namespace trimtab::cost_tables
