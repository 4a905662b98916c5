#include "costs/cost_tables.hpp"
#include "costs/single_batches.hpp"

namespace trimtab::cost_tables {

namespace {

// How much of a transaction that folds is left. Bytes are of the costs' text: they bound what is decoded and written,
// so that no origin, however much it holds, keeps an event loop waiting for more than some hundredths of a second.
struct Budget {
  std::int64_t batches = 256;
  std::int64_t bytes = std::int64_t{64} << 10;
  [[nodiscard]] bool is_spent() const { return batches <= 0 || bytes <= 0; }
};

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

// True when the origin has nothing more that could be folded. Of a budget that is not spent a batch is folded at least.
Result<bool> fold_within(Database& database, const Origin& origin, Budget& budget) {
  TRIMTAB_TRY(const auto rows, database.query("SELECT number, LENGTH(costs) FROM batches WHERE origin = ? AND "
                                              "number > ? ORDER BY number LIMIT ?",
                                              {origin.id, origin.folded, budget.batches + 1}));
  std::int64_t end = origin.folded;
  bool is_whole = true;
  for (const Row& row : rows) {
    if (as_integer(row[0]) != end + 1) break;
    if (budget.is_spent()) {
      is_whole = false;
      break;
    }
    ++end;
    --budget.batches;
    budget.bytes -= as_integer(row[1]);
  }
  TRIMTAB_TRY_STATUS(fold_until(database, origin, end));
  return is_whole;
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

Result<std::size_t> fold_some(Database& database, std::span<const std::string> names) {
  TRIMTAB_TRY(const auto origins, intern_origins(database, {names.begin(), names.end()}));
  Budget budget;
  std::size_t done = 0;
  for (const std::string& name : names) {
    TRIMTAB_TRY(const bool is_whole, fold_within(database, origins.at(name), budget));
    if (!is_whole) break;
    ++done;
  }
  return done;
}

// Along the index of the batches: origins that are folded as far as they go are not looked at.
Result<std::vector<UnfoldedOrigin>> unfolded_origins(const Database& database, std::int64_t after, std::size_t most) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT o.id, o.name, b.last, NOT EXISTS (SELECT 1 FROM batches n WHERE n.origin = o.id "
                             "AND n.number = o.folded + 1) FROM (SELECT origin, MAX(number) AS last FROM batches "
                             "WHERE origin > ? GROUP BY origin ORDER BY origin LIMIT ?) AS b "
                             "JOIN origins o ON o.id = b.origin ORDER BY o.id",
                             {after, static_cast<std::int64_t>(most)}));
  std::vector<UnfoldedOrigin> origins;
  for (const Row& row : rows) {
    origins.push_back(
        {as_integer(row[0]), as_text(row[1]), static_cast<std::uint64_t>(as_integer(row[2])), as_integer(row[3]) != 0});
  }
  return origins;
}

}  // namespace trimtab::cost_tables
