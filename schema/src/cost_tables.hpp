#pragma once

// The cost database's tables as functions: keys, origins, batches, costs. The caller holds the transaction.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
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
[[nodiscard]] Result<std::int64_t> intern_key(Database& database, const CostKey& key);

struct Origin {
  std::int64_t id = 0;
  std::int64_t folded = 0;  // all of 1 ... folded are stored as one
};
[[nodiscard]] Result<std::optional<Origin>> find_origin(const Database& database, const std::string& name);
[[nodiscard]] Result<Origin> intern_origin(Database& database, const std::string& name);
[[nodiscard]] Result<bool> has_batch(const Database& database, const Origin& origin, std::int64_t number);
[[nodiscard]] Status insert_batch(Database& database, const Origin& origin, std::int64_t number);

struct CostPlace {
  std::string fingerprint;
  std::int64_t key = 0;
  std::string source;
  auto operator<=>(const CostPlace&) const = default;
};
// Replaces what stands there.
[[nodiscard]] Status put_cost(Database& database, const CostPlace& place, const Origin& origin, std::int64_t number,
                              const std::string& statistics);

// Stores the origin's batches that follow on the folded ones without a gap as part of the folded sum, when there are
// enough of them. Changes no cost.
[[nodiscard]] Status fold(Database& database, const std::string& origin_name);

}  // namespace trimtab::cost_tables
