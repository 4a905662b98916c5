// Ranks of jobs that their users launched. Each is written down as any other, so that an agent that is started anew
// knows how they went on.

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ranks/launched_ranks.hpp"

namespace trimtab::agent {

namespace {

// Each was a process, but a process is quickly made.
constexpr std::ptrdiff_t kMostEnded = 128;

}  // namespace

// A process whose end nobody has noticed yet makes way: its end is told first.
Status LaunchedRanks::check_free(const LedgerRank& said, pid_t pid) {
  const auto found = ranks_.find(said.id);
  if (found == ranks_.end() || !found->second.is_active()) return {};
  const LedgerRank& known = found->second.entry;
  if (found->second.awaited) {
    return no(process_name(pid) + " says it is " + describe(said.id) + ", which launch " +
              std::to_string(known.launch) + " awaits here. Give one of the jobs another name");
  }
  if (processes_->is_alive(known.pid, known.start_time)) {
    return no(process_name(pid) + " says it is " + describe(said.id) + ", which process " + std::to_string(known.pid) +
              " is, and that one lives. Give each job that runs at a time a name of its own");
  }
  process_ended(said.id, {});
  return {};
}

Result<LaunchedRanks::Taken> LaunchedRanks::take_watched(LedgerRank said, pid_t pid) {
  TRIMTAB_TRY(const std::uint64_t start_time, start_time_of(pid, "the job runs in"));
  const auto known = ranks_.find(said.id);
  if (known != ranks_.end() && known->second.watch && known->second.entry.pid == pid &&
      known->second.entry.start_time == start_time) {
    return Taken{known->second.entry, false};
  }
  TRIMTAB_TRY_STATUS(check_free(said, pid));
  said.pid = pid;
  said.start_time = start_time;
  Rank rank;
  rank.entry = std::move(said);
  TRIMTAB_TRY_STATUS(watch(rank));
  TRIMTAB_TRY_STATUS(ledger_.put(rank.entry));
  bound_watched();
  spdlog::info("process {} is {} of launch {}, launched by its user", pid, describe(rank.entry.id), rank.entry.launch);
  LedgerRank taken = rank.entry;
  ranks_[taken.id] = std::move(rank);
  return Taken{std::move(taken), true};
}

// The process itself first: ranks may have started one another.
std::optional<LedgerRank> LaunchedRanks::find_watched(pid_t pid) const {
  if (pid <= 0) return std::nullopt;
  const auto find = [&](const auto& is_meant) -> std::optional<LedgerRank> {
    for (const auto& [id, rank] : ranks_) {
      if (rank.watch && rank.entry.is_watched() && is_meant(rank.entry.pid)) return rank.entry;
    }
    return std::nullopt;
  };
  if (auto itself = find([pid](pid_t one) { return one == pid; })) return itself;
  return find([&](pid_t one) { return processes_->belongs_to(pid, one); });
}

// What they said stays with RankNews, in its own bounds.
void LaunchedRanks::bound_watched() {
  const auto is_over = [](const auto& one) { return one.second.entry.is_watched() && !one.second.is_active(); };
  if (std::ranges::count_if(ranks_, is_over) < kMostEnded) return;
  std::erase_if(ranks_, is_over);
  if (const auto forgotten = ledger_.forget_ended_watched(); !forgotten.ok()) {
    spdlog::error("{}", forgotten.error().message);
  }
}

}  // namespace trimtab::agent
