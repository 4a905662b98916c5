#include "costs/cost_store.hpp"

#include <algorithm>

#include "node/agent_metric.hpp"

namespace trimtab::agent {

Result<CostStore> CostStore::open(Database& database, const std::string& costs_path, std::string instance,
                                  Bytes spool_limit, Send send) {
  TRIMTAB_TRY(auto spool, BatchSpool::open(database, spool_limit));
  TRIMTAB_TRY(auto costs, CostDatabase::open(costs_path, OpenMode::kCreate));
  CostStore store(std::move(spool), std::move(costs), std::move(instance), std::move(send));
  TRIMTAB_TRY_STATUS(store.enter_aside());
  TRIMTAB_TRY_STATUS(store.enter_spooled());
  TRIMTAB_TRY(const BatchNumbers numbers, batch_numbers(database));
  TRIMTAB_TRY(store.last_to_send_, agent::last_to_send(database));
  store.last_offered_ = numbers.last;
  return store;
}

// What an earlier start could not read: this one may be of a later release.
Status CostStore::enter_aside() {
  for (BatchSpool::AsideBatch last;;) {
    TRIMTAB_TRY(const auto some, spool_.next_aside(last, kMaxInFlight));
    if (some.empty()) return {};
    for (const auto& aside : some) {
      last = {aside.instance, {aside.batch.id, ""}};
      const auto decoded = decode_batch(aside.batch.payload);
      if (!decoded.ok()) continue;
      TRIMTAB_TRY_STATUS(enter({aside.instance, aside.batch.id}, decoded->origin, decoded->costs));
      TRIMTAB_TRY_STATUS(spool_.forget_aside(aside));
    }
  }
}

Status CostStore::enter_spooled() {
  for (std::uint64_t last = 0;;) {
    TRIMTAB_TRY(const auto batches, spool_.next(last, kMaxInFlight));
    if (batches.empty()) return {};
    for (const auto& batch : batches) {
      last = batch.id;
      const auto decoded = decode_batch(batch.payload);
      TRIMTAB_TRY_STATUS(decoded.ok() ? enter({instance_, batch.id}, decoded->origin, decoded->costs)
                                      : set_aside(batch, decoded.error().message));
    }
  }
}

// One that is no message at all leaves the spool: else the coordinator would wait for it with all that come after it.
Status CostStore::set_aside(const SpooledBatch& batch, const std::string& reason) {
  return spool_.set_aside(instance_, batch, reason, /*leaves=*/!is_batch(batch.payload));
}

Status CostStore::enter(const BatchId& batch, const CostOrigin& origin, const std::vector<Cost>& costs) {
  TRIMTAB_TRY(const auto fingerprint, parse_fingerprint(origin.owner.fingerprint_json, "the agent's fingerprint"));
  const auto entered = costs_.add_batch(batch, fingerprint, to_text(origin.source), costs);
  return entered.ok() ? Status{} : Status{entered.error()};
}

bool CostStore::store(const CostOrigin& origin, const std::vector<Cost>& costs) {
  const auto id = spool_.put(origin.of_benchmark(), encode_batch(origin, costs));
  if (!id.ok()) return failed(id.error());
  if (*id == 0) return ++counters_.no_room, false;
  ++counters_.spooled;
  // Our own copy is second: it is made before the batch leaves the spool, if not now.
  if (const auto entered = enter({instance_, *id}, origin, costs); !entered.ok()) {
    failed(entered.error());
    not_entered_.insert(*id);
  }
  pump();
  return true;
}

bool CostStore::failed(const Error& error) {
  ++counters_.failed;
  counters_.last_error = error.message;
  return false;
}

Status CostStore::prepare_renewal(const std::string& instance, std::uint64_t batches) {
  while (!not_entered_.empty()) {
    TRIMTAB_TRY_STATUS(enter_late(*not_entered_.begin()));
  }
  std::vector<CostBatch> used_up;
  for (std::uint64_t number = 1; number <= batches; ++number) {
    used_up.push_back({{instance, number}, std::nullopt, "renumbered", {}});
  }
  TRIMTAB_TRY_STATUS(costs_.add_batches(used_up));
  return {};
}

void CostStore::renew(std::string instance) {
  instance_ = std::move(instance);
  last_offered_ = 0;
  last_to_send_ = kEveryBatch;
  in_flight_.clear();
  to_let_go_.clear();
  not_entered_.clear();
  last_sent_ = 0;
}

void CostStore::link_opened() {
  in_flight_.clear();
  last_sent_ = 0;
  waits_since_.reset();
  pump();
}

void CostStore::look_after(Nanoseconds now) {
  std::erase_if(to_let_go_, [this](std::uint64_t batch) { return let_go(batch).ok(); });
  const bool moves = in_flight_.empty() || answers_ != answers_seen_;
  answers_seen_ = answers_;
  if (moves || !waits_since_) waits_since_ = now;
  if (now - *waits_since_ >= kAnswerTime) return link_opened();
  pump();
}

void CostStore::pump() {
  while (in_flight_.size() < kMaxInFlight) {
    const auto batches = spool_.next(last_sent_, 1);
    if (!batches.ok()) return static_cast<void>(failed(batches.error()));
    if (batches->empty() || batches->front().id > last_to_send_) return;
    wire::FromAgent message;
    if (!message.mutable_cost_batch()->ParseFromString(batches->front().payload)) {
      last_sent_ = batches->front().id;
      if (const Status aside = set_aside(batches->front(), "it is not a CostBatch message"); !aside.ok()) {
        failed(aside.error());
      }
      continue;
    }
    message.mutable_cost_batch()->set_batch(batches->front().id);
    if (!send_(message)) return;
    last_sent_ = batches->front().id;
    last_offered_ = std::max(last_offered_, last_sent_);
    in_flight_.insert(last_sent_);
  }
}

Status CostStore::enter_late(std::uint64_t batch) {
  TRIMTAB_TRY(const auto batches, spool_.next(batch - 1, 1));
  if (!batches.empty() && batches.front().id == batch) {
    TRIMTAB_TRY(const auto decoded, decode_batch(batches.front().payload));
    TRIMTAB_TRY_STATUS(enter({instance_, batch}, decoded.origin, decoded.costs));
  }
  not_entered_.erase(batch);
  return {};
}

// A batch that we cannot enter now stays in the spool.
Status CostStore::let_go(std::uint64_t batch) {
  if (not_entered_.contains(batch)) TRIMTAB_TRY_STATUS(enter_late(batch));
  return spool_.acknowledge(batch);
}

void CostStore::acknowledged(std::uint64_t batch) {
  if (const auto gone = let_go(batch); !gone.ok()) {
    failed(gone.error());
    to_let_go_.insert(batch);
  }
  ++answers_;
  if (in_flight_.erase(batch) > 0) ++counters_.acknowledged;
  pump();
}

void CostStore::append_metrics(std::vector<net::Metric>& into) const {
  add_counter(into, "batches_spooled", "Cost batches put into the spool.", counters_.spooled);
  add_counter(into, "batches_acknowledged", "Cost batches the coordinator has.", counters_.acknowledged);
  add_gauge(into, "batches_aside", "Batches of costs that this release cannot read, kept in agent.db for one that can.",
            spool_.aside());
  add_counter(into, "batches_failed", "Attempts to store costs that failed.", counters_.failed);
  add_gauge(into, "spool_bytes", "Bytes in the spool.", spool_.bytes());
  add_gauge(into, "spool_limit_bytes", "What the spool takes of passive costs; of benchmarks' it takes twice as much.",
            spool_.limit());
}

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
  Row row{std::int64_t{active ? 1 : 0}, size, payload};
  const auto add = [&]() -> Status {
    TRIMTAB_TRY(const auto rows,
                database_->execute_returning(
                    "INSERT INTO batches (active, bytes, payload) VALUES (?, ?, ?) RETURNING id", row));
    row.insert(row.begin(), rows.at(0).at(0));
    return database_->execute("UPDATE batches SET checksum = ? WHERE id = ?", {row_checksum(row), row[0]});
  };
  TRIMTAB_TRY_STATUS(database_->transaction(add));
  bytes_ += size;
  return static_cast<std::uint64_t>(as_integer(row[0]));
}

Status BatchSpool::acknowledge(std::uint64_t id) {
  const Value number = static_cast<std::int64_t>(id);
  TRIMTAB_TRY(const auto rows, database_->query("SELECT bytes FROM batches WHERE id = ?", {number}));
  TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM batches WHERE id = ?", {number}));
  if (!rows.empty()) bytes_ -= as_integer(rows[0][0]);
  return {};
}

Result<std::vector<SpooledBatch>> BatchSpool::next(std::uint64_t after, std::size_t count) const {
  Row arguments{static_cast<std::int64_t>(after), static_cast<std::int64_t>(count)};
  for (;;) {
    TRIMTAB_TRY(const auto found,
                database_->query_checked(batch_rows(), "WHERE id > ? ORDER BY id LIMIT ?", arguments));
    std::vector<SpooledBatch> batches;
    for (const auto& row : found.rows) {
      batches.push_back({static_cast<std::uint64_t>(as_integer(row[0])), as_text(row[3])});
    }
    if (!batches.empty() || found.damaged.empty()) return batches;
    arguments[0] = found.damaged.back()[0];  // none waits for one that is damaged
  }
}

Status BatchSpool::set_aside(const std::string& instance, const SpooledBatch& batch, const std::string& reason,
                             bool leaves) {
  const Value number = static_cast<std::int64_t>(batch.id);
  TRIMTAB_TRY(const auto rows, database_->query("SELECT bytes FROM batches WHERE id = ?", {number}));
  const auto move = [&]() -> Status {
    TRIMTAB_TRY_STATUS(database_->execute(insertion(aside_rows()) + " ON CONFLICT DO NOTHING",
                                          with_checksum({instance, number, batch.payload, reason})));
    return leaves ? database_->execute("DELETE FROM batches WHERE id = ?", {number}) : Status{};
  };
  TRIMTAB_TRY_STATUS(database_->transaction(move));
  if (leaves && !rows.empty()) bytes_ -= as_integer(rows[0][0]);
  return count_aside();
}

Result<std::vector<BatchSpool::AsideBatch>> BatchSpool::next_aside(const AsideBatch& after, std::size_t count) const {
  TRIMTAB_TRY(const auto found,
              database_->query_checked(
                  aside_rows(), "WHERE (instance, id) > (?, ?) ORDER BY instance, id LIMIT ?",
                  {after.instance, static_cast<std::int64_t>(after.batch.id), static_cast<std::int64_t>(count)}));
  std::vector<AsideBatch> all;
  for (const auto& row : found.rows) {
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
