#include "cost_load.hpp"

#include <utility>

#include "base/random.hpp"
#include "schema/fingerprint.hpp"

namespace trimtab::load {

CostLoad::CostLoad(std::string run, std::uint32_t agents, std::uint32_t costs, std::uint32_t values)
    : run_(std::move(run)), costs_(costs), values_(values), shared_count_(costs - costs / 4) {
  Fingerprint fingerprint;
  fingerprint.device = {{"kind", "cpu"}, {"model", "made up"}};
  fingerprint.software = {{"blas", "none"}, {"framework", "none"}};
  fingerprint_json_ = to_json(fingerprint);
  for (std::uint32_t i = 0; i < shared_count_; ++i) {
    const CostKind kind = i % 2 == 0 ? CostKind::kOperatorForward : CostKind::kOperatorBackward;
    shared_.push_back(place(kind, "attention-h4096-t2048-" + std::to_string(i / 2)));
  }
  for (std::uint32_t agent = 0; agent < agents; ++agent) {
    for (std::uint32_t i = shared_count_; i < costs_; ++i) {
      own_.push_back(place(CostKind::kRange, "node " + std::to_string(agent) + "/range " + std::to_string(i)));
    }
  }
}

CostLoad::Place CostLoad::place(CostKind kind, const std::string& subject) const {
  CostKey key;
  key.kind = kind;
  key.subject = run_ + "/" + subject;
  if (kind != CostKind::kRange) {
    key.dtype = "bfloat16";
    key.samples = 4;
    key.tp = 8;
  }
  key = canonical(std::move(key));
  std::string json = to_json(key);
  return {std::move(key), std::move(json), {}};
}

CostLoad::Place& CostLoad::place_of(std::uint32_t agent, std::uint32_t cost) {
  if (cost < shared_count_) return shared_[cost];
  return own_[std::size_t{agent} * (costs_ - shared_count_) + (cost - shared_count_)];
}

std::string CostLoad::instance(std::uint32_t agent) const {
  return run_ + "-" + std::to_string(agent);
}

void CostLoad::fill(wire::CostBatch& batch, std::uint32_t agent, std::uint64_t number, bool count_it) {
  batch.set_batch(number);
  batch.set_fingerprint_json(fingerprint_json_);
  batch.set_job("load");
  Random random((std::uint64_t{agent} << 40U) + number);
  for (std::uint32_t i = 0; i < costs_; ++i) {
    Place& place = place_of(agent, i);
    // Within some percent of each other, as a pass's times are.
    const std::uint64_t least = 200'000 + 50'000ULL * (i % 40);
    Statistics statistics;
    for (std::uint32_t v = 0; v < values_; ++v) {
      statistics.add(static_cast<std::int64_t>(least + random.below(least / 16)));
    }
    wire::CostEntry& entry = *batch.add_entries();
    entry.set_key_json(place.json);
    entry.set_statistics(statistics.encode());
    entry.set_source("passive");
    if (count_it) place.counted.merge(statistics);
  }
}

std::map<CostKey, Statistics> CostLoad::expected() const {
  std::map<CostKey, Statistics> sums;
  for (const auto* places : {&shared_, &own_}) {
    for (const Place& place : *places) {
      if (!place.counted.empty()) sums[place.key] = place.counted;
    }
  }
  return sums;
}

}  // namespace trimtab::load
