#pragma once

// What the daemon's parts share. The daemon owns it; the agents' and the people's side see all of it, every other part
// what it needs (needs.hpp). All of it belongs to the event loop's thread.

#include <functional>
#include <memory>
#include <string>

#include "agents/hardware_probing.hpp"
#include "agents/membership.hpp"
#include "api/access.hpp"
#include "api/live_ranks.hpp"
#include "api/metrics.hpp"
#include "api/traces.hpp"
#include "jobs/loop_time.hpp"
#include "needs.hpp"
#include "net/credentials.hpp"
#include "net/otlp_exporter.hpp"
#include "net/server.hpp"
#include "own_use.hpp"
#include "schema/storage/storage_watch.hpp"

namespace trimtab::coordinator {

class AnswerWorker;

// Into the log.
void say_of_storage(bool well, const std::string& line);

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
  RoomAtNode has_room = {};  // unset: always
  LiveRanks live = {};
  NodeClocks clocks = {};
  Traces traces{clock, send};
  HardwareProbing probing{clock, send};
  RefusalLog refusals{clock};
  RefusalLog foreign{clock};  // what nodes said of others' ranks, commands and traces
  CostCount cost_count{costs, clock};
  StorageWatch storage{say_of_storage};
  std::shared_ptr<const net::Credentials> tls = {};  // nothing: no TLS
  std::unique_ptr<net::OtlpExporter> exporter = {};  // nothing: metrics are posted nowhere
  std::unique_ptr<OwnUseWatch> own_use = {};         // nothing: nobody measures it
  std::function<net::Server::Taken()> taken = {};    // of connections' accounts; unset: there are none
  AnswerWorker* answers = nullptr;                   // nothing: long answers are made at once, on the loop
  LoopTime loop_time = {};                           // of jobs
  JobNeeds for_jobs{clock,    store,    costs, worker,   members,  live,
                    probing,  counters, send,  has_room, settings, nccl_table_directory,
                    loop_time};
  CostNeeds for_costs{clock, costs, counters, [this] { return own_use ? own_use->check_room_for_costs() : Status(); }};
};

}  // namespace trimtab::coordinator
