#pragma once

// Aceso's measured rows as costs, and its settings as models and clusters.
//
// Profiles of different sizes time the same collective differently (two sizes' own runs), so each (database, model,
// size) has a fingerprint of its own. Operators whose measurements are equal throughout have equal shapes (the
// publisher measured one of them and repeated its row) and share a cost key.

#include "published/aceso/tables.hpp"

namespace trimtab::published {

// The rows of one operator in one profile, "gpt" and "1_3B", of every database.
struct ProfiledOperator {
  std::string cost_key;                  // "gpt-1_3B/enc-MLP-gelu"
  std::vector<const OperatorRow*> rows;  // as in the file
};

using ModelSize = std::pair<std::string, std::string>;
using ProfiledOperators = std::map<ModelSize, std::map<std::string, ProfiledOperator>>;

// Borrows the rows.
[[nodiscard]] ProfiledOperators group_operators(const AcesoTables& tables);

struct ProfileCosts {
  ProfileName profile;
  std::string dtype;
  PublishedCosts published;
};

// One for each (database, model, size) in `tables`, in that order. Fails when rows of one profile differ in dtype.
[[nodiscard]] Result<std::vector<ProfileCosts>> aceso_costs(const AcesoTables& tables,
                                                            const ProfiledOperators& operators);

// Fills in models, clusters and remarks. `costs` are those of the same tables.
[[nodiscard]] Status add_aceso_models(const AcesoTables& tables, const ProfiledOperators& operators, Published& out);
[[nodiscard]] Status add_aceso_clusters(const AcesoTables& tables, const std::vector<ProfileCosts>& costs,
                                        Published& out);

}  // namespace trimtab::published
