#pragma once

// Whether a cost database and the maker of an origin's batches still agree on what was stored. They do not where one of
// them was set back to an older copy.

#include "base/result.hpp"
#include "schema/cost_database.hpp"
#include "schema/database.hpp"

namespace trimtab {

// As CostDatabase::compare(). Writes only where batches are lost, in a transaction of its own.
[[nodiscard]] Result<OriginFindings> find_of_origin(Database& database, const OriginNumbers& said);

}  // namespace trimtab
