#include "batch_spool.hpp"

namespace trimtab::agent {

Result<BatchSpool> BatchSpool::open(Database& database, Bytes limit) {
  BatchSpool spool(database, limit);
  TRIMTAB_TRY(const auto rows, database.query("SELECT CAST(COALESCE(SUM(bytes), 0) AS INTEGER) FROM batches"));
  spool.bytes_ = as_integer(rows[0][0]);
  return spool;
}

Result<std::uint64_t> BatchSpool::put(bool active, const std::string& payload) {
  const auto size = static_cast<Bytes>(payload.size());
  if (!active && bytes_ + size > limit_) return std::uint64_t{0};
  TRIMTAB_TRY(const auto rows,
              database_->execute_returning("INSERT INTO batches (active, bytes, payload) VALUES (?, ?, ?) RETURNING id",
                                           {std::int64_t{active ? 1 : 0}, size, payload}));
  bytes_ += size;
  return static_cast<std::uint64_t>(as_integer(rows.at(0).at(0)));
}

Status BatchSpool::acknowledge(std::uint64_t id) {
  const Value number = static_cast<std::int64_t>(id);
  TRIMTAB_TRY(const auto rows, database_->query("SELECT bytes FROM batches WHERE id = ?", {number}));
  TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM batches WHERE id = ?", {number}));
  if (!rows.empty()) bytes_ -= as_integer(rows[0][0]);
  return {};
}

Result<std::vector<SpooledBatch>> BatchSpool::next(std::uint64_t after, std::size_t count) const {
  TRIMTAB_TRY(const auto rows, database_->query("SELECT id, payload FROM batches WHERE id > ? ORDER BY id LIMIT ?",
                                                {static_cast<std::int64_t>(after), static_cast<std::int64_t>(count)}));
  std::vector<SpooledBatch> batches;
  for (const auto& row : rows) batches.push_back({static_cast<std::uint64_t>(as_integer(row[0])), as_text(row[1])});
  return batches;
}

}  // namespace trimtab::agent
