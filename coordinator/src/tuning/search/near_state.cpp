#include "tuning/search/near_state.hpp"

#include "base/text_parts.hpp"
#include "tuning/search/told_near.hpp"

namespace trimtab::coordinator {

std::string describe(const NearState& near) {
  return std::to_string(near.taken_over) + " costs are taken over from fingerprint " + near.found.fingerprint + " (" +
         near.found.differences +
         "): " + joined(near.findings, ", ", [](const tuner::NearFinding& one) { return tuner::describe(one); });
}

std::optional<api::TakenOver> taken_over_of(const NearState& near) {
  if (near.taken_over == 0) return std::nullopt;
  api::TakenOver taken{near.found.fingerprint, near.found.differences, near.taken_over, near.probes, {}};
  for (const tuner::NearFinding& one : near.findings) {
    taken.findings.push_back(
        {std::string(to_string(one.of)), std::string(to_string(one.verdict)), one.factor, one.doubt, one.probes});
  }
  return taken;
}

std::string fact_of(const NearState& near) {
  const auto taken = taken_over_of(near);
  return taken ? api::to_json(*taken) : "";
}

}  // namespace trimtab::coordinator
