#include "node/hello_facts.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "agent_database.hpp"
#include "schema/frame_bounds.hpp"

namespace trimtab::agent {

namespace {

void say_running(const LedgerRank& rank, wire::Hello& hello) {
  wire::RunningRank& running = *hello.add_running();
  running.set_job(rank.id.job);
  running.set_rank(rank.id.rank);
  running.set_pid(rank.pid);
  running.set_launch(rank.launch);
  running.set_epoch(rank.epoch);
  running.set_variant(rank.id.variant);
}

}  // namespace

void say_ranks(const std::vector<LedgerRank>& ranks, wire::Hello& hello) {
  std::map<std::string, std::uint64_t> launches;
  for (const LedgerRank& rank : ranks) {
    if (!rank.ended) say_running(rank, hello);
    std::uint64_t& latest = launches[rank.id.job];
    latest = std::max(latest, rank.launch);
  }
  for (const auto& [job, launch] : launches) {
    wire::JobLaunch& one = *hello.add_launches();
    one.set_job(job);
    one.set_launch(launch);
  }
}

void say_kept(const std::set<std::string>& jobs, wire::Hello& hello) {
  std::set<std::string> unnamed = jobs;
  for (const wire::JobLaunch& one : hello.launches()) unnamed.erase(one.job());
  for (const std::string& job : unnamed) {
    if (!std::cmp_less(hello.launches_size(), kMostLaunches)) return;
    hello.add_launches()->set_job(job);
  }
}

Status say_numbers(const Database& database, wire::Hello& hello) {
  TRIMTAB_TRY(const BatchNumbers numbers, batch_numbers(database));
  hello.set_last_batch(numbers.last);
  hello.set_held_from(numbers.held_from);
  hello.set_acknowledged_by(numbers.coordinator);
  return {};
}

}  // namespace trimtab::agent
