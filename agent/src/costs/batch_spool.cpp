#include "costs/batch_spool.hpp"

namespace trimtab::agent {

Result<BatchSpool> BatchSpool::open(Database& database, Bytes limit) {
  BatchSpool spool(database, limit);
  TRIMTAB_TRY(const auto rows, database.query("SELECT CAST(COALESCE(SUM(bytes), 0) AS INTEGER) FROM batches"));
  spool.bytes_ = as_integer(rows[0][0]);
  TRIMTAB_TRY_STATUS(spool.count_aside());
  return spool;
}

Result<std::uint64_t> BatchSpool::put(bool active, const std::string& payload) {
  const auto size = static_cast<Bytes>(payload.size());
  const Bytes beyond = bytes_ + size - limit_;
  if (beyond > (active ? limit_ : 0)) return std::uint64_t{0};
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

Status BatchSpool::set_aside(const std::string& instance, const SpooledBatch& batch, const std::string& reason,
                             bool leaves) {
  const Value number = static_cast<std::int64_t>(batch.id);
  TRIMTAB_TRY(const auto rows, database_->query("SELECT bytes FROM batches WHERE id = ?", {number}));
  const auto move = [&]() -> Status {
    TRIMTAB_TRY_STATUS(database_->execute(
        "INSERT INTO unreadable_batches (instance, id, payload, reason) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        {instance, number, batch.payload, reason}));
    return leaves ? database_->execute("DELETE FROM batches WHERE id = ?", {number}) : Status{};
  };
  TRIMTAB_TRY_STATUS(database_->transaction(move));
  if (leaves && !rows.empty()) bytes_ -= as_integer(rows[0][0]);
  return count_aside();
}

Result<std::vector<BatchSpool::AsideBatch>> BatchSpool::next_aside(const AsideBatch& after, std::size_t count) const {
  TRIMTAB_TRY(
      const auto rows,
      database_->query("SELECT instance, id, payload FROM unreadable_batches WHERE (instance, id) > (?, ?) "
                       "ORDER BY instance, id LIMIT ?",
                       {after.instance, static_cast<std::int64_t>(after.batch.id), static_cast<std::int64_t>(count)}));
  std::vector<AsideBatch> all;
  for (const auto& row : rows) {
    all.push_back({as_text(row[0]), {static_cast<std::uint64_t>(as_integer(row[1])), as_text(row[2])}});
  }
  return all;
}

Status BatchSpool::forget_aside(const AsideBatch& aside) {
  TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM unreadable_batches WHERE instance = ? AND id = ?",
                                        {aside.instance, static_cast<std::int64_t>(aside.batch.id)}));
  return count_aside();
}

Status BatchSpool::count_aside() {
  TRIMTAB_TRY(const auto rows, database_->query("SELECT COUNT(*) FROM unreadable_batches"));
  aside_ = static_cast<std::uint64_t>(as_integer(rows.at(0).at(0)));
  return {};
}

}  // namespace trimtab::agent
