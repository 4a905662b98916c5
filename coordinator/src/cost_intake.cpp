#include "cost_intake.hpp"

#include <map>
#include <utility>
#include <vector>

#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

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
  auto fingerprint = parse_fingerprint(batch.fingerprint_json(), "batch " + std::to_string(batch.batch()));
  if (!fingerprint.ok()) {
    ++counters.batches_refused;
    return wrap("cannot store the costs of agent instance " + instance, std::move(fingerprint).error());
  }
  Intake intake{hash(*fingerprint), false, false};
  // A stored batch has one source, so a mixed batch is stored as two; the first keeps the agent's own name for it.
  std::string origin = instance;
  for (const auto& [source, entries] : by_source(batch, counters)) {
    auto stored = costs.add_batch({origin, batch.batch()}, *fingerprint, source, entries);
    if (!stored.ok()) {
      ++counters.batches_refused;
      return wrap("cannot store batch " + std::to_string(batch.batch()), std::move(stored).error());
    }
    intake.is_new = intake.is_new || *stored;
    intake.has_active = intake.has_active || source == "active";
    origin = instance + "/" + "passive";
  }
  ++(intake.is_new ? counters.batches_stored : counters.batches_repeated);
  return intake;
}

}  // namespace trimtab::coordinator
