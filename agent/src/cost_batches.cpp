#include "cost_batches.hpp"

#include "schema/fingerprint.hpp"

namespace trimtab::agent {

void CostCollection::add(const CostOrigin& origin, const std::vector<Cost>& costs) {
  if (costs.empty()) return;
  auto& collected = costs_[origin];
  const std::size_t most = (origin.active ? 2 : 1) * kMostWaiting;
  for (const auto& cost : costs) {
    const auto known = collected.find(cost.key);
    if (known != collected.end()) {
      known->second.merge(cost.statistics);
    } else if (waiting_ < most) {
      collected.emplace(cost.key, cost.statistics);
      ++waiting_;
    } else {
      dropped_ += cost.statistics.count();
    }
  }
  if (collected.empty()) costs_.erase(origin);
}

std::size_t CostCollection::size_of(const Cost& cost) {
  constexpr std::size_t kKeyBytes = 256;
  return kKeyBytes + cost.key.subject.size() + cost.statistics.encode().size();
}

std::string encode_batch(const CostOrigin& origin, const std::vector<Cost>& costs) {
  wire::CostBatch batch;
  batch.set_job(origin.job);
  batch.set_fingerprint_json(origin.fingerprint_json);
  for (const auto& cost : costs) {
    auto& entry = *batch.add_entries();
    entry.set_key_json(to_json(cost.key));
    entry.set_statistics(cost.statistics.encode());
    entry.set_source(source_name(origin.active));
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
  DecodedBatch decoded{{batch.job(), batch.fingerprint_json(), false}, {}};
  for (const auto& entry : batch.entries()) {
    decoded.origin.active = entry.source() == source_name(true);
    TRIMTAB_TRY(CostKey key, parse_cost_key(entry.key_json()));
    TRIMTAB_TRY(Statistics statistics, Statistics::decode(entry.statistics()));
    decoded.costs.push_back({std::move(key), std::move(statistics)});
  }
  return decoded;
}

}  // namespace trimtab::agent
