#include "cost_tables.hpp"

namespace trimtab::cost_tables {

namespace {

// Few enough that reading a cost stays quick, many enough that folding is rare.
constexpr std::int64_t kFoldAtLeast = 64;

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

Result<std::map<CostPlace, Statistics>> sums_until(const Database& database, const Origin& origin, std::int64_t end) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT fingerprint, cost_key, source, statistics FROM costs WHERE origin = ? "
                             "AND (number = -1 OR (number > ? AND number <= ?))",
                             {origin.id, origin.folded, end}));
  std::map<CostPlace, Statistics> sums;
  for (const Row& row : rows) {
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[3])));
    sums[{as_text(row[0]), as_integer(row[1]), as_text(row[2])}].merge(statistics);
  }
  return sums;
}

}  // namespace

Status fold(Database& database, const Origin& origin) {
  TRIMTAB_TRY(const std::int64_t end, end_of_run(database, origin));
  if (end - origin.folded < kFoldAtLeast) return {};
  TRIMTAB_TRY(const auto sums, sums_until(database, origin, end));
  std::vector<StoredCost> folded;
  for (const auto& [place, statistics] : sums) folded.push_back({place, kFolded, statistics.encode()});
  TRIMTAB_TRY_STATUS(put_costs(database, origin, folded));
  TRIMTAB_TRY_STATUS(database.execute("DELETE FROM costs WHERE origin = ? AND number > ? AND number <= ?",
                                      {origin.id, origin.folded, end}));
  TRIMTAB_TRY_STATUS(database.execute("DELETE FROM batches WHERE origin = ? AND number > ? AND number <= ?",
                                      {origin.id, origin.folded, end}));
  return database.execute("UPDATE origins SET folded = ? WHERE id = ?", {end, origin.id});
}

}  // namespace trimtab::cost_tables
