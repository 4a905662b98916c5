#pragma once

// What of a rank's end, or its launcher's, the coordinator is told. Loop thread only.

#include <string>

#include "ranks/rank_ledger.hpp"
#include "ranks/rank_news.hpp"

namespace trimtab::agent {

// `log`: the path of what it printed, of which the last lines go along.
void tell_end(const LedgerRank& rank, const std::string& log, RankNews& news);

}  // namespace trimtab::agent
