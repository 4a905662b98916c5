#pragma once

// Oases' published profile as costs, and the settings of its paper (table III) as models and clusters.

#include <vector>

#include "published/oases_profile.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

// One profile for each hidden size; the settings whose hidden size was profiled, with a remark for each that was not.
[[nodiscard]] Published oases_documents(const std::vector<OasesRow>& rows);

}  // namespace trimtab::published
