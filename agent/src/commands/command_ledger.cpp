#include "commands/command_ledger.hpp"

namespace trimtab::agent {

namespace {

// FNV-1a; it tells apart what a coordinator sends, not what an attacker makes.
std::string digest(const wire::Command& command) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const std::string bytes = command.SerializeAsString();
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return std::to_string(hash) + "/" + std::to_string(bytes.size());
}

}  // namespace

Result<bool> CommandLedger::serve(const std::string& coordinator) {
  bool is_another = false;
  const Status kept = database_->transaction([&]() -> Status {
    TRIMTAB_TRY(const auto known, database_->query("SELECT coordinator FROM identity"));
    if (coordinator.empty() || as_text(known[0][0]) == coordinator) return {};
    is_another = true;
    TRIMTAB_TRY_STATUS(database_->execute("DELETE FROM commands"));
    return database_->execute(
        "UPDATE identity SET coordinator = ?, renew = CASE WHEN (SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence "
        "WHERE name = 'batches') > (SELECT COUNT(*) FROM batches) THEN 1 ELSE renew END",
        {coordinator});
  });
  if (!kept.ok()) return kept.error();
  return is_another;
}

Result<std::optional<wire::CommandDone>> CommandLedger::reply(const wire::Command& command) const {
  TRIMTAB_TRY(const auto rows,
              database_->query("SELECT ok, error, output, exit_code FROM commands WHERE id = ? AND digest = ?",
                               {static_cast<std::int64_t>(command.id()), digest(command)}));
  if (rows.empty()) return std::optional<wire::CommandDone>{};
  wire::CommandDone reply;
  reply.set_id(command.id());
  reply.set_ok(as_integer(rows[0][0]) != 0);
  reply.set_error(as_text(rows[0][1]));
  reply.set_output(as_text(rows[0][2]));
  reply.set_exit_code(static_cast<std::uint32_t>(as_integer(rows[0][3])));
  return std::optional(reply);
}

Status CommandLedger::done(const wire::Command& command, const wire::CommandDone& reply) {
  return database_->transaction([&]() -> Status {
    TRIMTAB_TRY_STATUS(database_->execute(
        "INSERT OR REPLACE INTO commands (id, digest, ok, error, output, exit_code) VALUES (?, ?, ?, ?, ?, ?)",
        {static_cast<std::int64_t>(command.id()), digest(command), std::int64_t{reply.ok()}, reply.error(),
         reply.output(), std::int64_t{reply.exit_code()}}));
    return database_->execute("DELETE FROM commands WHERE id NOT IN (SELECT id FROM commands ORDER BY id DESC LIMIT ?)",
                              {kKept});
  });
}

}  // namespace trimtab::agent
