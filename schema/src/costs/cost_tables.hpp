#pragma once

// The cost database's tables as functions: keys, origins, batches, costs. The caller holds the transaction.
//
// Why several writers at once stay exact on a server: all that is read and then changed belongs to origins, whose rows
// intern_origins() has locked, in the order of their names, until the transaction ends. Keys and fingerprints are only
// ever added, facts change in one statement.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"
#include "schema/database.hpp"

namespace trimtab::cost_tables {

// Rows that belong together in `costs` begin with these columns, in this order; `parse_key` reads them from `first` on.
inline constexpr const char* kKeyColumns =
    "k.kind, k.subject, k.dtype, k.samples, k.tp, k.sharding, k.bytes, k.group_size, k.placement, "
    "k.algorithm, k.protocol, k.channels, k.kernel_class";

[[nodiscard]] Migrations migrations();

[[nodiscard]] Result<CostKey> parse_key(const Row& row, std::size_t first);
[[nodiscard]] Result<std::optional<std::int64_t>> find_key(const Database& database, const CostKey& key);
// The ids of all of them; those that are new are stored. REQUIRES: canonical keys.
[[nodiscard]] Result<std::map<CostKey, std::int64_t>> intern_keys(Database& database, const std::set<CostKey>& keys);

struct Origin {
  std::int64_t id = 0;
  std::int64_t folded = 0;  // all of 1 ... folded are stored as one
  std::string node = {};    // whose it is; empty = nobody's yet
};
// By name; stored where they are new, and locked until the transaction ends.
[[nodiscard]] Result<std::map<std::string, Origin>> intern_origins(Database& database,
                                                                   const std::set<std::string>& names);
// Writes whose these are. REQUIRES: interned in this transaction.
[[nodiscard]] Status put_nodes(Database& database, const std::vector<Origin>& origins);

// Folded sums.
struct CostPlace {
  std::string fingerprint;
  std::int64_t key = 0;
  std::string source;
  auto operator<=>(const CostPlace&) const = default;
};
using CostSums = std::map<CostPlace, Statistics>;
// Replaces what stands there of this origin.
[[nodiscard]] Status put_costs(Database& database, const Origin& origin, const CostSums& sums);
[[nodiscard]] Status put_fingerprint(Database& database, const std::string& hash, const std::string& json);

// Adds the origin's batches that follow on the folded ones without a gap to the folded sums. Changes no cost. `origin`
// is as interned in this transaction.
[[nodiscard]] Status fold(Database& database, const Origin& origin);
// The same for all batches up to `end`, of which some may be missing: those count as without costs from now on.
[[nodiscard]] Status fold_until(Database& database, const Origin& origin, std::int64_t end);
// As CostDatabase::fold_origins(), of all these names.
[[nodiscard]] Result<std::size_t> fold_some(Database& database, std::span<const std::string> names);
// As CostDatabase::unfolded_origins().
[[nodiscard]] Result<std::vector<UnfoldedOrigin>> unfolded_origins(const Database& database, std::int64_t after,
                                                                   std::size_t most);

}  // namespace trimtab::cost_tables
