#include <algorithm>
#include <limits>

#include "costs/cost_tables.hpp"

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
  TRIMTAB_TRY(auto found,
              database.query_each("SELECT statistics, checksum FROM costs WHERE fingerprint = ? AND cost_key = ? AND "
                                  "source = ? AND origin = ?",
                                  places));
  auto sum = sums.begin();
  auto place = places.begin();
  for (Rows& rows : found) {
    Statistics& statistics = (sum++)->second;
    Row values = std::move(*place++);
    if (rows.empty()) continue;
    values.push_back(std::move(rows[0][0]));
    if (rows[0][1] != Value(std::int64_t{0}) && rows[0][1] != Value(row_checksum(values))) {
      return bad_input("cost database " + database.name() +
                       ": a folded cost cannot be read, and nothing is added to it. Start the program again: it sets "
                       "apart what it cannot read");
    }
    TRIMTAB_TRY(const Statistics folded, Statistics::decode(as_text(values.back())));
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

// Whether a cost database and the maker of an origin's batches still agree on what was stored. They do not where one of
// them was set back to an older copy.

struct Stored {
  std::int64_t folded = 0;
  std::int64_t single = 0;  // of those after `folded` and below held_from
  std::int64_t highest = 0;
  std::string node;
};

bool is_anothers(const std::string& node, const OriginNumbers& said) {
  return !said.node.empty() && !node.empty() && node != said.node;
}

Status check(const OriginNumbers& said) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!said.origin.empty() && said.last < kMost && said.held_from <= said.last + 1) return {};
  return bad_input("origin '" + said.origin + "' says that it has batches from " + std::to_string(said.held_from) +
                   " and has numbered them up to " + std::to_string(said.last) +
                   ": a name is needed, numbers below 2^63, and the first at most one above the second");
}

std::int64_t held_from(const OriginNumbers& said) {
  return static_cast<std::int64_t>(said.held_from);
}

Result<Stored> read(const Database& database, const OriginNumbers& said) {
  TRIMTAB_TRY(const auto rows,
              database.query("SELECT o.folded, (SELECT COUNT(*) FROM batches b WHERE b.origin = o.id AND "
                             "b.number > o.folded AND b.number < ?2), "
                             "(SELECT MAX(b.number) FROM batches b WHERE b.origin = o.id), o.node FROM origins o "
                             "WHERE o.name = ?1",
                             {said.origin, held_from(said)}));
  Stored stored;
  if (rows.empty()) return stored;
  stored.folded = stored.highest = as_integer(rows[0][0]);
  stored.single = as_integer(rows[0][1]);
  if (rows[0][2].index() != 0) stored.highest = std::max(stored.highest, as_integer(rows[0][2]));
  stored.node = as_text(rows[0][3]);
  return stored;
}

std::int64_t lost(const Stored& stored, const OriginNumbers& said) {
  return std::max<std::int64_t>(held_from(said) - 1 - stored.folded - stored.single, 0);
}

// What nobody sends again counts as empty, and the origin is this node's; unless it has become another's since.
Status count_as_empty(Database& database, const OriginNumbers& said, Stored& stored) {
  TRIMTAB_TRY(auto origins, intern_origins(database, {said.origin}));
  TRIMTAB_TRY(stored, read(database, said));
  Origin& origin = origins.at(said.origin);
  if (is_anothers(origin.node, said)) return {};
  if (origin.node.empty() && !said.node.empty()) {
    origin.node = stored.node = said.node;
    TRIMTAB_TRY_STATUS(put_nodes(database, {origin}));
  }
  TRIMTAB_TRY_STATUS(fold_until(database, origin, held_from(said) - 1));
  origin.folded = std::max(origin.folded, held_from(said) - 1);
  return fold(database, origin);
}

}  // namespace

Status fold_until(Database& database, const Origin& origin, std::int64_t end) {
  if (end <= origin.folded) return {};
  TRIMTAB_TRY(CostSums sums, sums_until(database, origin, end));
  TRIMTAB_TRY_STATUS(add_folded(database, origin, sums));
  TRIMTAB_TRY_STATUS(put_costs(database, origin, sums));
  TRIMTAB_TRY_STATUS(database.execute("DELETE FROM batches WHERE origin = ? AND number > ? AND number <= ?",
                                      {origin.id, origin.folded, end}));
  Origin folded = origin;
  folded.folded = end;
  return put_nodes(database, {folded});
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

Result<OriginFindings> find_of_origin(Database& database, const OriginNumbers& said) {
  TRIMTAB_TRY_STATUS(check(said));
  TRIMTAB_TRY(Stored stored, read(database, said));
  OriginFindings findings;
  findings.node = stored.node;
  if (is_anothers(stored.node, said)) return findings;
  findings.last = static_cast<std::uint64_t>(stored.highest);
  findings.ahead = said.last < static_cast<std::uint64_t>(stored.highest);
  if (findings.ahead || lost(stored, said) == 0) return findings;
  TRIMTAB_TRY_STATUS(database.transaction([&] { return count_as_empty(database, said, stored); }));
  findings.node = stored.node;
  if (is_anothers(stored.node, said)) return findings;
  findings.lost = static_cast<std::uint64_t>(lost(stored, said));
  return findings;
}

}  // namespace trimtab::cost_tables
