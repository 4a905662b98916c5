#pragma once

// Models and clusters of Galvatron's published settings: those of the paper's Tables II and III, and the models that
// the second version came with on the clusters that it measured.

#include <vector>

#include "published/galvatron/costs.hpp"

namespace trimtab::published {

// Fills in models, clusters and remarks. `layers` and `profiles` are those of the same tables.
[[nodiscard]] Status add_galvatron_documents(const GalvatronTables& tables, const std::vector<GalvatronLayer>& layers,
                                             const std::vector<GalvatronProfile>& profiles, Published& out);

}  // namespace trimtab::published
