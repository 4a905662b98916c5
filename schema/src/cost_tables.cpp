#include "cost_tables.hpp"

#include <limits>
#include <utility>

#include "cost_migrations.hpp"

namespace trimtab::cost_tables {

namespace {

constexpr std::uint32_t kApplicationId = 0x74724331;  // "trC1"

Result<std::int32_t> int32_of(const Value& value) {
  const std::int64_t number = as_integer(value);
  if (number >= 0 && number <= std::numeric_limits<std::int32_t>::max()) return static_cast<std::int32_t>(number);
  return bad_input("a stored cost key has the number " + std::to_string(number) + ", which is out of range");
}

std::vector<Value> values_of(const CostKey& key) {
  return {std::string(to_string(key.kind)),
          key.subject,
          key.dtype,
          std::int64_t{key.samples},
          std::int64_t{key.tp},
          key.sharding,
          key.bytes,
          std::int64_t{key.group_size},
          key.placement,
          key.algorithm,
          key.protocol,
          std::int64_t{key.channels},
          key.kernel_class};
}

}  // namespace

Migrations migrations() {
  Migrations all{kApplicationId, "cost database", {}};
  for (const char* step : kCostMigrations) all.steps.emplace_back(step);
  return all;
}

Result<CostKey> parse_key(const Row& row, std::size_t first) {
  CostKey key;
  TRIMTAB_TRY(key.kind, parse_cost_kind(as_text(row[first])));
  key.subject = as_text(row[first + 1]);
  key.dtype = as_text(row[first + 2]);
  TRIMTAB_TRY(key.samples, int32_of(row[first + 3]));
  TRIMTAB_TRY(key.tp, int32_of(row[first + 4]));
  key.sharding = as_text(row[first + 5]);
  key.bytes = as_integer(row[first + 6]);
  TRIMTAB_TRY(key.group_size, int32_of(row[first + 7]));
  key.placement = as_text(row[first + 8]);
  key.algorithm = as_text(row[first + 9]);
  key.protocol = as_text(row[first + 10]);
  TRIMTAB_TRY(key.channels, int32_of(row[first + 11]));
  key.kernel_class = as_text(row[first + 12]);
  return key;
}

Result<std::optional<std::int64_t>> find_key(const Database& database, const CostKey& key) {
  TRIMTAB_TRY(const auto rows, database.query("SELECT id FROM cost_keys WHERE kind = ? AND subject = ? AND dtype = ? "
                                              "AND samples = ? AND tp = ? AND sharding = ? AND bytes = ? "
                                              "AND group_size = ? AND placement = ? AND algorithm = ? AND protocol = ? "
                                              "AND channels = ? AND kernel_class = ?",
                                              values_of(key)));
  if (rows.empty()) return std::optional<std::int64_t>();
  return std::optional(as_integer(rows[0][0]));
}

Result<std::int64_t> intern_key(Database& database, const CostKey& key) {
  TRIMTAB_TRY(const auto found, find_key(database, key));
  if (found) return *found;
  TRIMTAB_TRY_STATUS(
      database.execute("INSERT INTO cost_keys (kind, subject, dtype, samples, tp, sharding, bytes, "
                       "group_size, placement, algorithm, protocol, channels, kernel_class) "
                       "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       values_of(key)));
  return database.last_insert_id();
}

Result<std::optional<Origin>> find_origin(const Database& database, const std::string& name) {
  TRIMTAB_TRY(const auto rows, database.query("SELECT id, folded FROM origins WHERE name = ?", {name}));
  if (rows.empty()) return std::optional<Origin>();
  return std::optional(Origin{as_integer(rows[0][0]), as_integer(rows[0][1])});
}

Result<Origin> intern_origin(Database& database, const std::string& name) {
  TRIMTAB_TRY(const auto found, find_origin(database, name));
  if (found) return *found;
  TRIMTAB_TRY_STATUS(database.execute("INSERT INTO origins (name) VALUES (?)", {name}));
  return Origin{database.last_insert_id(), 0};
}

Result<bool> has_batch(const Database& database, const Origin& origin, std::int64_t number) {
  if (number >= 1 && number <= origin.folded) return true;
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT 1 FROM batches WHERE origin = ? AND number = ?", {origin.id, number}));
  return !rows.empty();
}

Status insert_batch(Database& database, const Origin& origin, std::int64_t number) {
  return database.execute("INSERT INTO batches (origin, number) VALUES (?, ?)", {origin.id, number});
}

Status put_cost(Database& database, const CostPlace& place, const Origin& origin, std::int64_t number,
                const std::string& statistics) {
  return database.execute(
      "INSERT OR REPLACE INTO costs (fingerprint, cost_key, source, origin, number, statistics) "
      "VALUES (?, ?, ?, ?, ?, ?)",
      {place.fingerprint, place.key, place.source, origin.id, number, statistics});
}

}  // namespace trimtab::cost_tables
