#pragma once

// What every job of the coordinator shares. Owned by the daemon; all of it belongs to the event loop's thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "agents/hardware_probing.hpp"
#include "agents/membership.hpp"
#include "agents/node_clocks.hpp"
#include "agents/probe_token.hpp"
#include "api/live_ranks.hpp"
#include "api/refusal_log.hpp"
#include "api/traces.hpp"
#include "base/clock.hpp"
#include "coordinator/settings.hpp"
#include "costs/collective_join.hpp"
#include "costs/cost_count.hpp"
#include "costs/transfer_join.hpp"
#include "jobs/search_worker.hpp"
#include "net/credentials.hpp"
#include "net/metric_text.hpp"
#include "net/otlp_exporter.hpp"
#include "own_use.hpp"
#include "schema/cost_database.hpp"
#include "state_store.hpp"

namespace trimtab::wire {
class ToAgent;
}

namespace trimtab::coordinator {

struct SearchBudget {
  Nanoseconds time = std::chrono::seconds(5);
  std::uint64_t evaluations = 200'000;
};

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

struct Services {
  const Clock& clock;
  StateStore& store;
  CostDatabase& costs;
  Searches& worker;
  Membership& members;
  SearchBudget budget;
  PortRange rendezvous_ports;
  std::string nccl_table_directory;
  // False when the node is not connected; the message is lost then, and sent again when the node is back.
  std::function<bool(const std::string& node, const wire::ToAgent&)> send;
  Counters counters;
  LiveRanks live = {};
  NodeClocks clocks = {};
  Traces traces{clock, send};
  HardwareProbing probing{clock, send, probe_token};
  RefusalLog refusals{clock};
  RefusalLog foreign{clock};  // what nodes said of others' ranks, commands and traces
  CostCount cost_count{costs, clock};
  std::shared_ptr<const net::Credentials> tls = {};  // nothing: no TLS
  std::unique_ptr<net::OtlpExporter> exporter = {};  // nothing: metrics are posted nowhere
  std::unique_ptr<OwnUseWatch> own_use = {};         // nothing: nobody measures it

  // Asked before measured costs are stored: an error where their database takes all that it may. Who has them keeps
  // them, as on a full disk, and tries again.
  [[nodiscard]] Status check_room_for_costs() const { return own_use ? own_use->check_room_for_costs() : Status(); }
};

}  // namespace trimtab::coordinator
