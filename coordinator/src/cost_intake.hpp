#pragma once

// Batches of costs from agents into the merged cost database. A batch counts once; what is acknowledged is committed.

#include <string>

#include "base/result.hpp"
#include "schema/cost_database.hpp"
#include "services.hpp"

namespace trimtab::wire {
class CostBatch;
}

namespace trimtab::coordinator {

struct Intake {
  std::string fingerprint;  // hash
  bool is_new = false;
  bool has_active = false;  // costs that a benchmark measured
  std::string refused;      // why the batch can never be stored; empty: it is
};

// Entries that cannot be read are left out and counted; the batch is stored without them, since the agent could only
// send the same again. Fails, with nothing stored, when the database cannot store: then there must be no
// acknowledgement, and the agent sends the batch again.
[[nodiscard]] Result<Intake> store_batch(CostDatabase& costs, const std::string& instance, const wire::CostBatch& batch,
                                         Counters& counters);

}  // namespace trimtab::coordinator
