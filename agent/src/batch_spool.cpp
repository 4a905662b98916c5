#include "batch_spool.hpp"

namespace trimtab::agent {

Result<BatchSpool> BatchSpool::open(Database& database, Bytes limit) {
  BatchSpool spool(database, limit);
  TRIMTAB_TRY_STATUS(spool.count_bytes());
  return spool;
}

Status BatchSpool::count_bytes() {
  TRIMTAB_TRY(const auto rows, database_->query("SELECT COALESCE(SUM(bytes), 0) FROM batches"));
  bytes_ = as_integer(rows[0][0]);
  return {};
}

Result<std::uint64_t> BatchSpool::put(bool active, const std::string& payload) {
  const auto size = static_cast<Bytes>(payload.size());
  std::uint64_t id = 0;
  const std::uint64_t dropped_before = dropped_;
  const auto stored = database_->transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(make_room(size));
    if (!active && bytes_ + size > limit_) {
      ++dropped_;
      return {};
    }
    TRIMTAB_TRY(const auto rows, database_->execute_returning(
                                     "INSERT INTO batches (active, bytes, payload) VALUES (?, ?, ?) RETURNING id",
                                     {std::int64_t{active ? 1 : 0}, size, payload}));
    id = static_cast<std::uint64_t>(as_integer(rows.at(0).at(0)));
    bytes_ += size;
    return {};
  });
  if (stored.ok()) return id;
  dropped_ = dropped_before;
  TRIMTAB_TRY_STATUS(count_bytes());
  return stored.error();
}

Status BatchSpool::make_room(Bytes needed) {
  while (bytes_ + needed > limit_) {
    TRIMTAB_TRY(const auto oldest,
                database_->query("SELECT id, bytes FROM batches WHERE active = 0 ORDER BY id LIMIT 1"));
    if (oldest.empty()) return {};
    TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM batches WHERE id = ?", {oldest[0][0]}));
    bytes_ -= as_integer(oldest[0][1]);
    ++dropped_;
  }
  return {};
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
