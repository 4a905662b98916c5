#include "ranks/rank_ledger.hpp"

namespace trimtab::agent {

Status RankLedger::put(const LedgerRank& rank) {
  return database_->execute(
      "INSERT OR REPLACE INTO ranks (job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code, "
      "signal) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {rank.id.job, rank.id.variant, std::int64_t{rank.id.rank}, static_cast<std::int64_t>(rank.launch),
       static_cast<std::int64_t>(rank.epoch), std::int64_t{rank.pid}, static_cast<std::int64_t>(rank.start_time),
       std::int64_t{rank.said_bye}, std::int64_t{rank.ended}, std::int64_t{rank.exit_code}, std::int64_t{rank.signal}});
}

Status RankLedger::forget_old() {
  return database_->execute("DELETE FROM ranks WHERE ended = 1 AND (SELECT COUNT(*) FROM ranks WHERE ended = 1) > 256");
}

Status RankLedger::forget_ended() {
  return database_->execute("DELETE FROM ranks WHERE ended = 1");
}

Status RankLedger::forget_ended(const std::string& job) {
  return database_->execute("DELETE FROM ranks WHERE ended = 1 AND job = ?", {job});
}

Result<std::vector<LedgerRank>> RankLedger::all() const {
  TRIMTAB_TRY(
      const auto rows,
      database_->query("SELECT job, variant, rank, launch, epoch, pid, start_time, said_bye, ended, exit_code, signal "
                       "FROM ranks ORDER BY job, variant, rank"));
  std::vector<LedgerRank> ranks;
  for (const auto& row : rows) {
    LedgerRank rank;
    rank.id = {as_text(row[0]), as_text(row[1]), static_cast<std::uint32_t>(as_integer(row[2]))};
    rank.launch = static_cast<std::uint64_t>(as_integer(row[3]));
    rank.epoch = static_cast<std::uint64_t>(as_integer(row[4]));
    rank.pid = static_cast<pid_t>(as_integer(row[5]));
    rank.start_time = static_cast<std::uint64_t>(as_integer(row[6]));
    rank.said_bye = as_integer(row[7]) != 0;
    rank.ended = as_integer(row[8]) != 0;
    rank.exit_code = static_cast<std::int32_t>(as_integer(row[9]));
    rank.signal = static_cast<std::int32_t>(as_integer(row[10]));
    ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace trimtab::agent
