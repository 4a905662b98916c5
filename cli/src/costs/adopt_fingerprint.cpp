#include "costs/adopt_fingerprint.hpp"

#include <set>

#include "documents.hpp"

namespace trimtab::cli {

namespace {

using Layer = std::map<std::string, std::string>;

std::string value_of(const Layer& layer, const std::string& key) {
  const auto found = layer.find(key);
  return found == layer.end() ? "" : found->second;
}

std::string difference(const std::string& what, const std::string& measured, const std::string& target) {
  if (measured == target) return "";
  const auto said = [](const std::string& value) { return value.empty() ? "unset" : "'" + value + "'"; };
  return what + " was " + said(measured) + " there and is " + said(target) + " here";
}

std::string nccl_difference(const Layer& measured, const Layer& target) {
  std::set<std::string> names;
  for (const Layer* layer : {&measured, &target}) {
    for (const auto& [name, value] : *layer) {
      if (name.starts_with("NCCL_")) names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const std::string found = difference(name, value_of(measured, name), value_of(target, name));
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

std::string disagreement(const Fingerprint& measured, const Fingerprint& target) {
  const std::string gpu = difference("the GPU", value_of(measured.device, "model"), value_of(target.device, "model"));
  if (!gpu.empty()) return gpu;
  const std::string nccl = value_of(target.software, "nccl");
  if (!nccl.empty() && nccl != value_of(measured.software, "nccl")) {
    return difference("NCCL", value_of(measured.software, "nccl"), nccl);
  }
  return nccl_difference(measured.environment, target.environment);
}

Status adopt_fingerprint(const std::string& database, const std::string& wanted, Published& published) {
  TRIMTAB_TRY(const CostDatabase costs, open_costs(database));
  TRIMTAB_TRY(const std::vector<Fingerprint> known, costs.fingerprints());
  std::vector<std::string> hashes;
  for (const Fingerprint& fingerprint : known) hashes.push_back(hash(fingerprint));
  TRIMTAB_TRY(const std::string chosen, choose_fingerprint(hashes, wanted, nullptr, database));
  for (std::size_t index = 0; index < known.size(); ++index) {
    if (hashes[index] != chosen) continue;
    for (PublishedCosts& profile : published.costs) {
      const std::string found = disagreement(profile.fingerprint, known[index]);
      if (!found.empty()) {
        return bad_input("--fingerprint " + chosen + ": the costs are of other hardware: " + found +
                         ". Import them without --fingerprint");
      }
      profile.fingerprint = known[index];
      profile.origin += "/" + chosen;  // counted once for each fingerprint
    }
  }
  return {};
}

}  // namespace trimtab::cli
