#pragma once

// All ranks of some traces, for tests.

#include <string>
#include <utility>
#include <vector>

#include "schema/traces/read_traces.hpp"

namespace trimtab::test {

[[nodiscard]] inline Result<std::vector<TracedRank>> read_all(const std::vector<std::string>& paths) {
  std::vector<TracedRank> ranks;
  TRIMTAB_TRY_STATUS(read_traces(paths, [&ranks](TracedRank rank) { ranks.push_back(std::move(rank)); }));
  return ranks;
}

}  // namespace trimtab::test
