#include "costs/cost_batches.hpp"

#include "schema/fingerprint.hpp"

namespace trimtab::agent {

namespace {

// Batches that an earlier release spooled say no condition.
CostSource source_of(const wire::CostEntry& entry) {
  return parse_cost_source(entry.condition().empty() ? entry.source() : entry.condition());
}

}  // namespace

void CostCollection::add(const CostOwner& owner, const std::vector<Cost>& costs) {
  CostOrigin origin{owner, {}};
  for (const Cost& cost : costs) {
    origin.source = cost.source;
    add(origin, cost);
  }
}

void CostCollection::add(const CostOrigin& origin, const Cost& cost) {
  const auto of = costs_.find(origin);
  if (of != costs_.end()) {
    if (const auto known = of->second.find(cost.key); known != of->second.end()) {
      return known->second.merge(cost.statistics);
    }
  }
  if (waiting_ >= (origin.of_benchmark() ? 2 : 1) * kMostWaiting) {
    dropped_ += cost.statistics.count();
    return;
  }
  costs_[origin].emplace(cost.key, cost.statistics);
  ++waiting_;
}

std::size_t CostCollection::size_of(const Cost& cost) {
  constexpr std::size_t kKeyBytes = 256;
  return kKeyBytes + cost.key.subject.size() + cost.statistics.encode().size();
}

std::string encode_batch(const CostOrigin& origin, const std::vector<Cost>& costs) {
  wire::CostBatch batch;
  batch.set_job(origin.owner.job);
  batch.set_fingerprint_json(origin.owner.fingerprint_json);
  const std::string condition = to_text(origin.source);
  for (const auto& cost : costs) {
    auto& entry = *batch.add_entries();
    entry.set_key_json(to_json(cost.key));
    entry.set_statistics(cost.statistics.encode());
    entry.set_source(origin.of_benchmark() ? "active" : "passive");
    entry.set_condition(condition);
  }
  return batch.SerializeAsString();
}

bool is_batch(std::string_view payload) {
  wire::CostBatch batch;
  return batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()));
}

Result<DecodedBatch> decode_batch(std::string_view payload) {
  wire::CostBatch batch;
  if (!batch.ParseFromArray(payload.data(), static_cast<int>(payload.size()))) {
    return bad_input("a spooled batch is not a CostBatch message");
  }
  TRIMTAB_TRY_STATUS(parse_fingerprint(batch.fingerprint_json(), "a spooled batch's fingerprint"));
  DecodedBatch decoded{{{batch.job(), batch.fingerprint_json()}, {}}, {}};
  for (const auto& entry : batch.entries()) {
    decoded.origin.source = source_of(entry);
    TRIMTAB_TRY(CostKey key, parse_cost_key(entry.key_json()));
    TRIMTAB_TRY(Statistics statistics, Statistics::decode(entry.statistics()));
    decoded.costs.push_back({std::move(key), std::move(statistics), decoded.origin.source});
  }
  return decoded;
}

}  // namespace trimtab::agent
