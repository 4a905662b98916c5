#include "published/seen_costs.hpp"

#include "published/measured.hpp"

namespace trimtab::published {

std::vector<PublishedCosts> seen_profiles(const std::string& program, Fingerprint fingerprint, const SeenCosts& costs) {
  std::vector<PublishedCosts> profiles;
  std::vector<Cost> all;
  for (const auto& [source, values] : costs) {
    CostSource named = source;
    named.name = program;
    PublishedCosts profile;
    profile.source = to_text(named);
    profile.what = describe(named);
    profile.tells_all = false;
    for (const auto& [key, statistics] : values) profile.costs.push_back({key, statistics, named});
    all.insert(all.end(), profile.costs.begin(), profile.costs.end());
    profiles.push_back(std::move(profile));
  }
  fingerprint.environment["measured_by"] = program;
  if (!fingerprint.device.contains("model")) fingerprint.environment["costs"] = digest(all);
  for (PublishedCosts& profile : profiles) {
    profile.fingerprint = fingerprint;
    profile.origin = "import:" + program + "/" + digest(all) + "/" + digest(profile.costs) + "/" + hash(fingerprint);
  }
  return profiles;
}

}  // namespace trimtab::published
