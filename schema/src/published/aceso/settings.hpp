#pragma once

// Models and clusters for what Aceso's profiler measured. Its tables name a model and a size; the layers, the batch and
// the machines of the authors' own sizes are those that their profiler and search scripts state, and of any other size
// what the caller says. What neither knows stays without documents, and a remark says what to say.

#include <string>
#include <vector>

#include "published/aceso/tables.hpp"
#include "schema/published.hpp"

namespace trimtab::published {

// Fills in tables.settings and tables.lists.
void add_aceso_settings(AcesoTables& tables, const ProfileSupplement& supplement, std::vector<std::string>& remarks);

}  // namespace trimtab::published
