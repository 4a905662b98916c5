#pragma once

// What each launch tells NCCL (schema/nccl_table.hpp): made once per launch from the costs known then, and written down
// before it is sent. So a node that hears of the launch later, or from the next coordinator, gets the very same table
// as the others, whatever was measured meanwhile: ranks that choose differently would hang. One owner thread.

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/cost.hpp"

namespace trimtab::coordinator {

// What the choices are made of; asked only where a launch has no table yet.
using CollectiveCosts = std::function<Result<std::vector<Cost>>()>;

// The launch's table, empty where there is nothing to choose. `run` and `launch` count the coordinator's jobs and a
// job's launches. Of a run's tables the latest eight are kept. Fails when it can be neither read nor written, and when
// the costs cannot be read: then the launch must not be sent, and no table is kept.
[[nodiscard]] Result<std::string> nccl_table_of_launch(const std::string& directory, std::int64_t run,
                                                       std::uint64_t launch, const CollectiveCosts& costs);

// Removes the tables of all runs but these: a run that is over launches nothing any more.
void keep_nccl_tables_of(const std::string& directory, const std::set<std::int64_t>& runs);

}  // namespace trimtab::coordinator
