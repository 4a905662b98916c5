#pragma once

// What the coordinator's parts need of each other, by reference, so that each is given no more than that: by their
// names alone, the headers are with those who use them. services.hpp owns what is named here. Event loop's thread only.

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "agents/wire_messages.hpp"
#include "coordinator/settings.hpp"
#include "costs/transfer_join.hpp"
#include "net/metric_text.hpp"

namespace trimtab {
class CostDatabase;
}

namespace trimtab::coordinator {

class HardwareProbing;
class LiveRanks;
class LoopTime;
class Membership;
class Searches;
class StateStore;

// What a rank spent in the sampled collectives that were joined.
struct RankWaiting {
  double waiting_seconds = 0;   // for ranks that came later
  double transfer_seconds = 0;  // when all were there
  std::uint64_t collectives = 0;
  std::uint64_t late = 0;  // it was the one that the others waited for
};

// Since the process began; /metrics shows them.
struct Counters {
  std::uint64_t batches_stored = 0;
  std::uint64_t batches_repeated = 0;
  std::uint64_t batches_refused = 0;  // that can never be stored
  std::uint64_t batches_lost = 0;     // stored and acknowledged once: the database is an older copy
  std::uint64_t batches_failed = 0;   // attempts to store one that did not succeed
  std::uint64_t cost_entries = 0;
  std::uint64_t cost_entries_refused = 0;
  std::uint64_t frames_malformed = 0;
  std::uint64_t frames_delayed = 0;
  std::uint64_t rank_events = 0;
  std::uint64_t state_failures = 0;
  std::uint64_t steps_dropped = 0;  // that came while a job's state could not be stored
  std::uint64_t runs_forgotten = 0;
  std::uint64_t audit_forgotten = 0;
  std::uint64_t retention_failures = 0;
  std::uint64_t searches = 0;
  net::Histogram search_times{net::kSecondBounds};
  net::Histogram commit_times{net::kSecondBounds};
  JoinCounters collectives;
  TransferCounters transfers;
  std::uint64_t collective_costs_dropped = 0;
  std::map<std::pair<std::string, std::uint32_t>, RankWaiting> waiting;  // of jobs that run, by job and rank
  double loop_lag_seconds = 0;
  double loop_lag_max_seconds = 0;
};

// Of jobs: their runs, their table, and what forgets them.
struct JobNeeds {
  const Clock& clock;
  StateStore& store;
  CostDatabase& costs;
  Searches& worker;
  Membership& members;
  const LiveRanks& live;
  HardwareProbing& probing;
  Counters& counters;
  const SendToNode& send;
  const RoomAtNode& has_room;  // unset: always
  const Settings& settings;
  const std::string& nccl_table_directory;
  LoopTime& loop_time;
};

// Of those who store measured costs.
struct CostNeeds {
  const Clock& clock;
  CostDatabase& costs;
  Counters& counters;
  // Asked first: an error where the costs' database takes all that it may. Who has them keeps them, as on a full disk,
  // and tries again.
  std::function<Status()> check_room;
};

}  // namespace trimtab::coordinator
