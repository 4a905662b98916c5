#pragma once

// Commands that were done, with their replies: one that is asked twice runs once, also across the agent's death. Keeps
// the latest few hundred. One owner thread.

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "schema/database.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

class CommandLedger {
 public:
  static constexpr std::int64_t kKept = 256;

  // `database` must outlive the ledger.
  explicit CommandLedger(Database& database) : database_(&database) {}

  // Command ids are unique per coordinator database: another coordinator's start anew. Empty = unknown, changes
  // nothing. True where it is another one; where the former one has acknowledged batches, the instance is to be renewed
  // (agent_database.hpp).
  [[nodiscard]] Result<bool> serve(const std::string& coordinator);
  // Nothing for a command that was not done, or that differs from the one done under its id.
  [[nodiscard]] Result<std::optional<wire::CommandDone>> reply(const wire::Command& command) const;
  [[nodiscard]] Status done(const wire::Command& command, const wire::CommandDone& reply);

 private:
  Database* database_;
};

}  // namespace trimtab::agent
