#include "costs/cost_values.hpp"

#include <utility>

#include "costs/single_batches.hpp"

namespace trimtab::cost_tables {

namespace {

using EachValue = std::function<void(const CostPlace&, const Statistics&)>;

std::string placeholders(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += i == 0 ? "?" : ", ?";
  return text;
}

bool wants(const CostQuery& query, std::int64_t key) {
  return !query.keys || query.keys->contains(key);
}

Status read_folded(const Database& database, const CostQuery& query, const EachValue& each) {
  std::string sql = "SELECT fingerprint, cost_key, source, statistics FROM costs";
  Row arguments;
  const auto restrict_to = [&](const char* column, Value value) {
    sql += std::string(arguments.empty() ? " WHERE " : " AND ") + column + " = ?";
    arguments.push_back(std::move(value));
  };
  if (!query.fingerprint.empty()) restrict_to("fingerprint", query.fingerprint);
  if (query.keys && query.keys->size() == 1) restrict_to("cost_key", *query.keys->begin());
  if (!query.source.empty()) restrict_to("source", query.source);
  TRIMTAB_TRY(const auto rows, database.query(sql, arguments));
  for (const Row& row : rows) {
    const CostPlace place{as_text(row[0]), as_integer(row[1]), as_text(row[2])};
    if (!wants(query, place.key)) continue;
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[3])));
    each(place, statistics);
  }
  return {};
}

}  // namespace

Status read_values(const Database& database, const CostQuery& query, const EachValue& each) {
  TRIMTAB_TRY_STATUS(read_folded(database, query, each));
  const auto wanted = [&](std::int64_t key) { return wants(query, key); };
  return read_batches(database, {query.fingerprint, query.source}, [&](const SingleBatch& batch) -> Status {
    TRIMTAB_TRY(const auto costs, decode_costs(batch.costs, wanted));
    CostPlace place{batch.fingerprint, 0, batch.source};
    for (const KeyedCost& cost : costs) {
      place.key = cost.key;
      each(place, cost.statistics);
    }
    return {};
  });
}

Result<std::set<CostPlace>> read_places(const Database& database) {
  std::set<CostPlace> places;
  TRIMTAB_TRY(const auto rows, database.query("SELECT DISTINCT fingerprint, cost_key, source FROM costs"));
  for (const Row& row : rows) places.insert({as_text(row[0]), as_integer(row[1]), as_text(row[2])});
  const auto add = [&](const SingleBatch& batch) -> Status {
    TRIMTAB_TRY(const auto keys, decode_keys(batch.costs));
    CostPlace place{batch.fingerprint, 0, batch.source};
    for (const std::int64_t key : keys) {
      place.key = key;
      places.insert(place);
    }
    return {};
  };
  TRIMTAB_TRY_STATUS(read_batches(database, {}, add));
  return places;
}

Result<std::map<std::int64_t, CostKey>> read_keys(const Database& database, const std::vector<CostKind>& kinds) {
  std::string sql = std::string("SELECT k.id, ") + kKeyColumns + " FROM cost_keys k";
  Row arguments;
  if (!kinds.empty()) sql += " WHERE k.kind IN (" + placeholders(kinds.size()) + ")";
  for (const CostKind kind : kinds) arguments.emplace_back(std::string(to_string(kind)));
  TRIMTAB_TRY(const auto rows, database.query(sql, arguments));
  std::map<std::int64_t, CostKey> keys;
  for (const Row& row : rows) {
    TRIMTAB_TRY(keys[as_integer(row[0])], parse_key(row, 1));
  }
  return keys;
}

}  // namespace trimtab::cost_tables
