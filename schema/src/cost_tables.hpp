#pragma once

// The cost database's tables as functions: keys, origins, batches, costs. The caller holds the transaction.
//
// Why several writers at once stay exact on a server: all that is read and then changed belongs to one origin, whose
// row intern_origin() has locked until the transaction ends. Keys and fingerprints are only ever added, facts change in
// one statement.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"
#include "schema/database.hpp"

namespace trimtab::cost_tables {

// In the column `number` of costs: the sum of an origin's folded batches.
inline constexpr std::int64_t kFolded = -1;
// Rows that belong together in `costs` begin with these columns, in this order; `parse_key` reads them from `first` on.
inline constexpr const char* kKeyColumns =
    "k.kind, k.subject, k.dtype, k.samples, k.tp, k.sharding, k.bytes, k.group_size, k.placement, "
    "k.algorithm, k.protocol, k.channels, k.kernel_class";
inline constexpr std::size_t kKeyColumnCount = 13;

[[nodiscard]] Migrations migrations();

[[nodiscard]] Result<CostKey> parse_key(const Row& row, std::size_t first);
[[nodiscard]] Result<std::optional<std::int64_t>> find_key(const Database& database, const CostKey& key);
// The ids of all of them; those that are new are stored. REQUIRES: canonical keys.
[[nodiscard]] Result<std::map<CostKey, std::int64_t>> intern_keys(Database& database, const std::set<CostKey>& keys);

struct Origin {
  std::int64_t id = 0;
  std::int64_t folded = 0;  // all of 1 ... folded are stored as one
};
// Stored if it is new, and locked until the transaction ends.
[[nodiscard]] Result<Origin> intern_origin(Database& database, const std::string& name);
[[nodiscard]] Result<bool> has_batch(const Database& database, const Origin& origin, std::int64_t number);
[[nodiscard]] Status insert_batches(Database& database, const Origin& origin, const std::vector<std::int64_t>& numbers);

struct CostPlace {
  std::string fingerprint;
  std::int64_t key = 0;
  std::string source;
  auto operator<=>(const CostPlace&) const = default;
};
struct StoredCost {
  CostPlace place;
  std::int64_t number = 0;
  std::string statistics;
};
// Replaces what stands there.
[[nodiscard]] Status put_costs(Database& database, const Origin& origin, const std::vector<StoredCost>& costs);
[[nodiscard]] Status put_fingerprint(Database& database, const std::string& hash, const std::string& json);

// Stores the origin's batches that follow on the folded ones without a gap as part of the folded sum, when there are
// enough of them. Changes no cost. `origin` is as interned in this transaction.
[[nodiscard]] Status fold(Database& database, const Origin& origin);

}  // namespace trimtab::cost_tables
