#pragma once

// What the daemon's parts share. The daemon owns it; the agents' and the people's side see all of it, every other part
// what it needs (needs.hpp). All of it belongs to the event loop's thread.

#include <memory>
#include <string>

#include "agents/hardware_probing.hpp"
#include "agents/membership.hpp"
#include "api/access.hpp"
#include "api/live_ranks.hpp"
#include "api/metrics.hpp"
#include "api/traces.hpp"
#include "needs.hpp"
#include "net/credentials.hpp"
#include "net/otlp_exporter.hpp"
#include "own_use.hpp"

namespace trimtab::coordinator {

struct Services {
  const Clock& clock;
  StateStore& store;
  CostDatabase& costs;
  Searches& worker;
  Membership& members;
  Settings settings;
  std::string nccl_table_directory;
  SendToNode send;
  Counters counters;
  LiveRanks live = {};
  NodeClocks clocks = {};
  Traces traces{clock, send};
  HardwareProbing probing{clock, send};
  RefusalLog refusals{clock};
  RefusalLog foreign{clock};  // what nodes said of others' ranks, commands and traces
  CostCount cost_count{costs, clock};
  std::shared_ptr<const net::Credentials> tls = {};  // nothing: no TLS
  std::unique_ptr<net::OtlpExporter> exporter = {};  // nothing: metrics are posted nowhere
  std::unique_ptr<OwnUseWatch> own_use = {};         // nothing: nobody measures it
  JobNeeds for_jobs{
      clock, store, costs, worker, members, live, probing, counters, send, settings, nccl_table_directory};
  CostNeeds for_costs{clock, costs, counters, [this] { return own_use ? own_use->check_room_for_costs() : Status(); }};
};

}  // namespace trimtab::coordinator
