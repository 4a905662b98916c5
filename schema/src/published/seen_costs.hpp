#pragma once

// Costs that another program's record of a running job tells, as profiles. Pure.

#include <map>
#include <string>
#include <vector>

#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

using SeenCosts = std::map<CostSource, std::map<CostKey, Statistics>>;

// One profile for each condition, under the fingerprint of what the record tells: `program` ("pytorch-profiler") goes
// into every source and into the fingerprint. Where no GPU's model is told, the costs' digest goes there, too, so that
// two machines of which nobody knows anything never share one.
[[nodiscard]] std::vector<PublishedCosts> seen_profiles(const std::string& program, Fingerprint fingerprint,
                                                        const SeenCosts& costs);

}  // namespace trimtab::published
