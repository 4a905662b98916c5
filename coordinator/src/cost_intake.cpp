#include "cost_intake.hpp"

#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

constexpr auto kLargestNumber = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

std::map<std::string, std::vector<Cost>> by_source(const wire::CostBatch& batch, Counters& counters) {
  std::map<std::string, std::vector<Cost>> sources;
  for (const wire::CostEntry& entry : batch.entries()) {
    auto key = parse_cost_key(entry.key_json());
    auto statistics = Statistics::decode(entry.statistics());
    const bool source_known = entry.source() == "active" || entry.source() == "passive";
    if (!key.ok() || !statistics.ok() || statistics->empty() || !source_known) {
      ++counters.cost_entries_refused;
      continue;
    }
    ++counters.cost_entries;
    sources[entry.source()].push_back({std::move(key).value(), std::move(statistics).value()});
  }
  // A batch without a readable entry is stored all the same: its number is used up.
  if (sources.empty()) sources["passive"] = {};
  return sources;
}

}  // namespace

Result<Intake> store_batch(CostDatabase& costs, const std::string& instance, const wire::CostBatch& batch,
                           Counters& counters) {
  const std::string name = "batch " + std::to_string(batch.batch());
  const auto fingerprint = parse_fingerprint(batch.fingerprint_json(), name);
  Intake intake;
  if (batch.batch() > kLargestNumber) intake.refused = name + ": batches are numbered below 2^63";
  if (!fingerprint.ok()) intake.refused = fingerprint.error().message;
  if (!intake.refused.empty()) {
    ++counters.batches_refused;
    return intake;
  }
  intake.fingerprint = hash(*fingerprint);
  // A stored batch has one source, so a mixed batch is stored as two; the first keeps the agent's own name for it.
  std::vector<CostBatch> parts;
  for (auto& [source, entries] : by_source(batch, counters)) {
    const std::string origin = parts.empty() ? instance : instance + "/" + "passive";
    parts.push_back({{origin, batch.batch()}, *fingerprint, source, std::move(entries)});
    intake.has_active = intake.has_active || source == "active";
  }
  auto stored = costs.add_batches(parts);
  if (!stored.ok()) {
    ++counters.batches_failed;
    return wrap("cannot store " + name, std::move(stored).error());
  }
  intake.is_new = *stored > 0;
  ++(intake.is_new ? counters.batches_stored : counters.batches_repeated);
  return intake;
}

}  // namespace trimtab::coordinator
