#pragma once

// The ranks this agent has launched, on disk: after its own death it knows them again. One owner thread.

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "ranks/rank_identity.hpp"
#include "schema/database.hpp"

namespace trimtab::agent {

struct LedgerRank {
  RankIdentity id;
  std::uint64_t launch = 0;
  std::uint64_t epoch = 0;  // of the plan it runs, as far as the agent knows
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  bool said_bye = false;
  bool ended = false;
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;
};

class RankLedger {
 public:
  // `database` must outlive the ledger.
  explicit RankLedger(Database& database) : database_(&database) {}

  // Replaces what was known of that rank.
  [[nodiscard]] Status put(const LedgerRank& rank);
  [[nodiscard]] Result<std::vector<LedgerRank>> all() const;
  // Ranks that have ended, where there are more than a few hundred of them.
  [[nodiscard]] Status forget_old();
  [[nodiscard]] Status forget_ended();  // all of them
  [[nodiscard]] Status forget_ended(const std::string& job);

 private:
  Database* database_;
};

}  // namespace trimtab::agent
