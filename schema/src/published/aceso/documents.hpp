#pragma once

// Models and clusters of Aceso's published settings.

#include <vector>

#include "published/aceso/costs.hpp"
#include "published/aceso/tables.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

// Fills in models, clusters and remarks. `costs` are those of the same tables.
[[nodiscard]] Status add_aceso_models(const AcesoTables& tables, const ProfiledOperators& operators, Published& out);
[[nodiscard]] Status add_aceso_clusters(const AcesoTables& tables, const std::vector<ProfileCosts>& costs,
                                        Published& out);

}  // namespace trimtab::published
