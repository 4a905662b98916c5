#include "cost_tables.hpp"
#include "single_batches.hpp"

namespace trimtab::cost_tables {

namespace {

// The last of the batches that follow on `folded` without a gap.
Result<std::int64_t> end_of_run(const Database& database, const Origin& origin) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT number FROM batches WHERE origin = ? AND number > ? ORDER BY number LIMIT 4096",
                             {origin.id, origin.folded}));
  std::int64_t end = origin.folded;
  for (const Row& row : rows) {
    if (as_integer(row[0]) != end + 1) break;
    ++end;
  }
  return end;
}

Result<CostSums> sums_until(const Database& database, const Origin& origin, std::int64_t end) {
  CostSums sums;
  for (std::int64_t last = origin.folded; last < end;) {
    TRIMTAB_TRY(const auto batches, next_batches(database, origin, last, end));
    if (batches.empty()) break;
    for (const SingleBatch& batch : batches) {
      TRIMTAB_TRY(const auto costs, decode_costs(batch.costs));
      for (const KeyedCost& cost : costs) sums[{batch.fingerprint, cost.key, batch.source}].merge(cost.statistics);
    }
    last = batches.back().number;
  }
  return sums;
}

Status add_folded(const Database& database, const Origin& origin, CostSums& sums) {
  Rows places;
  for (const auto& [place, statistics] : sums) {
    places.push_back({place.fingerprint, place.key, place.source, origin.id});
  }
  TRIMTAB_TRY(const auto found,
              database.query_each("SELECT statistics FROM costs WHERE fingerprint = ? AND cost_key = ? AND source = ? "
                                  "AND origin = ?",
                                  places));
  auto sum = sums.begin();
  for (const Rows& rows : found) {
    Statistics& statistics = (sum++)->second;
    if (rows.empty()) continue;
    TRIMTAB_TRY(const Statistics folded, Statistics::decode(as_text(rows[0][0])));
    statistics.merge(folded);
  }
  return {};
}

}  // namespace

Status fold_until(Database& database, const Origin& origin, std::int64_t end) {
  if (end <= origin.folded) return {};
  TRIMTAB_TRY(CostSums sums, sums_until(database, origin, end));
  TRIMTAB_TRY_STATUS(add_folded(database, origin, sums));
  TRIMTAB_TRY_STATUS(put_costs(database, origin, sums));
  TRIMTAB_TRY_STATUS(database.execute("DELETE FROM batches WHERE origin = ? AND number > ? AND number <= ?",
                                      {origin.id, origin.folded, end}));
  return database.execute("UPDATE origins SET folded = ? WHERE id = ?", {end, origin.id});
}

Status fold(Database& database, const Origin& origin) {
  TRIMTAB_TRY(const std::int64_t end, end_of_run(database, origin));
  return fold_until(database, origin, end);
}

}  // namespace trimtab::cost_tables
