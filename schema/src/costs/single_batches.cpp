#include "costs/single_batches.hpp"

#include <charconv>
#include <utility>

namespace trimtab::cost_tables {

namespace {

// Rows that are in memory at once.
constexpr std::int64_t kAtOnce = 64;
constexpr const char* kColumns = "SELECT origin, number, COALESCE(fingerprint || '', ''), source, costs FROM batches ";

SingleBatch batch_of(Row& row) {
  return {as_integer(row[0]), as_integer(row[1]), as_text(row[2]), as_text(row[3]),
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

Result<std::vector<std::int64_t>> decode_keys(std::string_view costs) {
  std::vector<std::int64_t> keys;
  while (!costs.empty()) {
    TRIMTAB_TRY(std::string_view line, take_line(costs));
    TRIMTAB_TRY(const std::int64_t key, take_key(line));
    keys.push_back(key);
  }
  return keys;
}

Status insert_batches(Database& database, std::vector<SingleBatch> batches) {
  Rows arguments;
  for (SingleBatch& batch : batches) {
    Value fingerprint = std::monostate{};
    if (!batch.costs.empty()) fingerprint = std::move(batch.fingerprint);
    arguments.push_back(
        {batch.origin, batch.number, std::move(fingerprint), std::move(batch.source), std::move(batch.costs)});
  }
  return database.execute_each(
      "INSERT INTO batches (origin, number, fingerprint, source, costs) VALUES (?, ?, ?, ?, ?)", arguments);
}

Result<std::vector<SingleBatch>> next_batches(const Database& database, const Origin& origin, std::int64_t after,
                                              std::int64_t last) {
  TRIMTAB_TRY(auto rows, database.query(std::string(kColumns) + "WHERE origin = ? AND number > ? AND number <= ? "
                                                                "ORDER BY number LIMIT ?",
                                        {origin.id, after, last, kAtOnce}));
  return batches_of(std::move(rows));
}

Status read_batches(const Database& database, const BatchFilter& filter,
                    const std::function<Status(const SingleBatch&)>& each) {
  std::string sql = std::string(kColumns) + "WHERE (origin, number) > (?1, ?2) AND costs <> ''";
  Row arguments{std::int64_t{0}, std::int64_t{-1}, kAtOnce};
  std::string place = "?4";
  if (!filter.fingerprint.empty()) {
    sql += " AND fingerprint = " + std::exchange(place, "?5");
    arguments.emplace_back(filter.fingerprint);
  }
  if (!filter.source.empty()) {
    sql += " AND source = " + place;
    arguments.emplace_back(filter.source);
  }
  sql += " ORDER BY origin, number LIMIT ?3";
  for (;;) {
    TRIMTAB_TRY(auto rows, database.query(sql, arguments));
    const std::vector<SingleBatch> batches = batches_of(std::move(rows));
    for (const SingleBatch& batch : batches) TRIMTAB_TRY_STATUS(each(batch));
    if (batches.size() < static_cast<std::size_t>(kAtOnce)) return {};
    arguments[0] = batches.back().origin;
    arguments[1] = batches.back().number;
  }
}

}  // namespace trimtab::cost_tables
