#include "cost_store.hpp"

#include <utility>

namespace trimtab::agent {

Result<CostStore> CostStore::open(Database& database, const std::string& costs_path, std::string instance,
                                  Bytes spool_limit, Send send) {
  TRIMTAB_TRY(auto spool, BatchSpool::open(database, spool_limit));
  TRIMTAB_TRY(auto costs, CostDatabase::open(costs_path, OpenMode::kCreate));
  CostStore store(std::move(spool), std::move(costs), std::move(instance), std::move(send));
  TRIMTAB_TRY_STATUS(store.enter_spooled());
  return store;
}

Status CostStore::enter_spooled() {
  for (std::uint64_t last = 0;;) {
    TRIMTAB_TRY(const auto batches, spool_.next(last, kMaxInFlight));
    if (batches.empty()) return {};
    for (const auto& batch : batches) {
      last = batch.id;
      TRIMTAB_TRY(const auto decoded, decode_batch(batch.payload));
      TRIMTAB_TRY_STATUS(enter(batch.id, decoded.origin, decoded.costs));
    }
  }
}

Status CostStore::enter(std::uint64_t batch, const CostOrigin& origin, const std::vector<Cost>& costs) {
  TRIMTAB_TRY(const auto fingerprint, parse_fingerprint(origin.fingerprint_json, "the agent's fingerprint"));
  const auto entered = costs_.add_batch({instance_, batch}, fingerprint, source_name(origin.active), costs);
  return entered.ok() ? Status{} : Status{entered.error()};
}

bool CostStore::store(const CostOrigin& origin, const std::vector<Cost>& costs) {
  const auto id = spool_.put(origin.active, encode_batch(origin, costs));
  if (!id.ok()) return failed(id.error());
  if (*id == 0) return true;  // dropped and counted
  ++counters_.spooled;
  // Our own copy is second: what is in the spool is entered at the next start, if not now.
  if (const auto entered = enter(*id, origin, costs); !entered.ok()) failed(entered.error());
  pump();
  return true;
}

bool CostStore::failed(const Error& error) {
  ++counters_.failed;
  counters_.last_error = error.message;
  return false;
}

void CostStore::link_opened() {
  in_flight_.clear();
  last_sent_ = 0;
  pump();
}

void CostStore::pump() {
  while (in_flight_.size() < kMaxInFlight) {
    const auto batches = spool_.next(last_sent_, 1);
    if (!batches.ok()) return static_cast<void>(failed(batches.error()));
    if (batches->empty()) return;
    wire::FromAgent message;
    if (!message.mutable_cost_batch()->ParseFromString(batches->front().payload)) {
      last_sent_ = batches->front().id;
      failed(bad_input("batch " + std::to_string(last_sent_) + " of the spool cannot be read"));
      continue;
    }
    message.mutable_cost_batch()->set_batch(batches->front().id);
    if (!send_(message)) return;
    last_sent_ = batches->front().id;
    in_flight_.insert(last_sent_);
  }
}

void CostStore::acknowledged(std::uint64_t batch) {
  if (const auto deleted = spool_.acknowledge(batch); !deleted.ok()) failed(deleted.error());
  if (in_flight_.erase(batch) > 0) ++counters_.acknowledged;
  pump();
}

}  // namespace trimtab::agent
