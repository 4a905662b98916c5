// What a cost database holds of some costs: the folded sums, and the batches that are not folded yet.

#include <charconv>

#include "costs/cost_tables.hpp"

namespace trimtab::cost_tables {

namespace {

// Rows that are in memory at once.
constexpr std::int64_t kAtOnce = 64;

SingleBatch batch_of(Row& row) {
  const auto* fingerprint = std::get_if<std::string>(&row[2]);  // NULL where it has no costs
  return {as_integer(row[0]), as_integer(row[1]), fingerprint == nullptr ? "" : *fingerprint, as_text(row[3]),
          std::move(std::get<std::string>(row[4]))};
}

std::vector<SingleBatch> batches_of(Rows rows) {
  std::vector<SingleBatch> batches;
  for (Row& row : rows) batches.push_back(batch_of(row));
  return batches;
}

Error damaged(std::string_view line) {
  return bad_input("a stored batch has the cost '" + std::string(line.substr(0, 80)) +
                   "', which is no key and statistics; the database is damaged");
}

// Takes a line off the front, without its end.
Result<std::string_view> take_line(std::string_view& costs) {
  const std::size_t end = costs.find('\n');
  if (end == std::string_view::npos) return damaged(costs);
  const std::string_view line = costs.substr(0, end);
  costs.remove_prefix(end + 1);
  return line;
}

// Takes the key off the front of a line.
Result<std::int64_t> take_key(std::string_view& line) {
  std::int64_t key = 0;
  const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), key);
  if (failure != std::errc{} || end == line.data() + line.size() || *end != ' ') return damaged(line);
  line.remove_prefix(static_cast<std::size_t>(end - line.data()) + 1);
  return key;
}

bool wants(const CostQuery& query, std::int64_t key) {
  return !query.keys || query.keys->contains(key);
}

Status read_folded(const Database& database, const CostQuery& query, const EachValue& each) {
  std::string rest;
  Row arguments;
  const auto restrict_to = [&](const char* column, Value value) {
    rest += std::string(arguments.empty() ? "WHERE " : " AND ") + column + " = ?";
    arguments.push_back(std::move(value));
  };
  if (!query.fingerprint.empty()) restrict_to("fingerprint", query.fingerprint);
  if (!query.source.empty()) restrict_to("source", query.source);
  if (query.keys && !query.keys->empty()) {
    rest += std::string(arguments.empty() ? "WHERE" : " AND") + " cost_key BETWEEN ? AND ?";
    arguments.insert(arguments.end(), {*query.keys->begin(), *query.keys->rbegin()});
  }
  TRIMTAB_TRY(const auto found, database.query_checked(cost_rows(), rest, arguments));
  for (const Row& row : found.rows) {
    const CostPlace place{as_text(row[0]), as_integer(row[1]), as_text(row[2])};
    if (!wants(query, place.key)) continue;
    TRIMTAB_TRY(const Statistics statistics, Statistics::decode(as_text(row[4])));
    each(place, statistics);
  }
  return {};
}

// Calls `each` with the batches that have costs, some at a time.
Status read_batches(const Database& database, const CostQuery& query,
                    const std::function<Status(const SingleBatch&)>& each) {
  std::string rest = "WHERE (origin, number) > (?1, ?2) AND costs <> ''";
  Row arguments{std::int64_t{0}, std::int64_t{-1}, kAtOnce};
  std::string place = "?4";
  if (!query.fingerprint.empty()) {
    rest += " AND fingerprint = " + std::exchange(place, "?5");
    arguments.emplace_back(query.fingerprint);
  }
  if (!query.source.empty()) {
    rest += " AND source = " + place;
    arguments.emplace_back(query.source);
  }
  rest += " ORDER BY origin, number LIMIT ?3";
  for (;;) {
    TRIMTAB_TRY(auto found, database.query_checked(batch_rows(), rest, arguments));
    const std::vector<SingleBatch> batches = batches_of(std::move(found.rows));
    for (const SingleBatch& batch : batches) TRIMTAB_TRY_STATUS(each(batch));
    if (batches.empty() || batches.size() + found.damaged.size() < static_cast<std::size_t>(kAtOnce)) return {};
    arguments[0] = batches.back().origin;
    arguments[1] = batches.back().number;
  }
}

}  // namespace

void append_cost(std::string& costs, std::int64_t key, const Statistics& statistics) {
  costs += std::to_string(key);
  costs += ' ';
  costs += statistics.encode();
  costs += '\n';
}

Result<std::vector<KeyedCost>> decode_costs(std::string_view costs, const std::function<bool(std::int64_t)>& wanted) {
  std::vector<KeyedCost> decoded;
  while (!costs.empty()) {
    TRIMTAB_TRY(std::string_view line, take_line(costs));
    TRIMTAB_TRY(const std::int64_t key, take_key(line));
    if (wanted && !wanted(key)) continue;
    TRIMTAB_TRY(Statistics statistics, Statistics::decode(line));
    decoded.push_back({key, std::move(statistics)});
  }
  return decoded;
}

Status insert_batches(Database& database, std::vector<SingleBatch> batches) {
  Rows arguments;
  for (SingleBatch& batch : batches) {
    Value fingerprint = std::monostate{};
    if (!batch.costs.empty()) fingerprint = std::move(batch.fingerprint);
    arguments.push_back(with_checksum(
        {batch.origin, batch.number, std::move(fingerprint), std::move(batch.source), std::move(batch.costs)}));
  }
  return database.execute_each(
      "INSERT INTO batches (origin, number, fingerprint, source, costs, checksum) VALUES (?, ?, ?, ?, ?, ?)",
      arguments);
}

Result<std::vector<SingleBatch>> next_batches(const Database& database, const Origin& origin, std::int64_t after,
                                              std::int64_t last) {
  TRIMTAB_TRY(auto found, database.query_checked(
                              batch_rows(), "WHERE origin = ? AND number > ? AND number <= ? ORDER BY number LIMIT ?",
                              {origin.id, after, last, kAtOnce}));
  return batches_of(std::move(found.rows));
}

Status read_values(const Database& database, const CostQuery& query, const EachValue& each) {
  TRIMTAB_TRY_STATUS(read_folded(database, query, each));
  const auto wanted = [&](std::int64_t key) { return wants(query, key); };
  return read_batches(database, query, [&](const SingleBatch& batch) -> Status {
    TRIMTAB_TRY(const auto costs, decode_costs(batch.costs, wanted));
    CostPlace place{batch.fingerprint, 0, batch.source};
    for (const KeyedCost& cost : costs) {
      place.key = cost.key;
      each(place, cost.statistics);
    }
    return {};
  });
}

}  // namespace trimtab::cost_tables
