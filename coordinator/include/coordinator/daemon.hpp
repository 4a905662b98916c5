#pragma once

// The cluster daemon: membership, merged costs, the tune loop of each job, HTTP and agents on one port. Everything
// happens on the loop's thread but searches, which have a worker. Construct, run() the loop, destroy: what was
// acknowledged is on disk at every moment, so being killed at any point loses nothing.

#include <memory>
#include <vector>

#include "coordinator/settings.hpp"
#include "net/event_loop.hpp"
#include "schema/server_inspection.hpp"

namespace trimtab::coordinator {

class Daemon {
 public:
  // Opens the state (refusing one that another coordinator has open), listens, takes up what an earlier coordinator
  // left. Loop and clock must outlive the daemon.
  [[nodiscard]] static Result<std::unique_ptr<Daemon>> start(net::EventLoop& loop, const Clock& clock,
                                                             const Settings& settings);
  virtual ~Daemon() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  // One line for people: nodes that are connected, jobs that are not over.
  [[nodiscard]] virtual std::string status() const = 0;
  // Reads certificates, tokens and the deny list again; what cannot be used is logged and changes nothing. Links of
  // agents that would not be let in any more are closed. The files are also looked at every few seconds.
  virtual void reload() = 0;
  // No new connections, the present ones closed. Ranks go on; the next coordinator finds them.
  virtual void stop() = 0;
};

// A database that the settings put on a PostgreSQL server, looked at without starting a coordinator.
struct ServerDatabase {
  std::string key;  // of the setting: "cost_database" or "state_database"
  Result<ServerInspection> seen;
};

// Those that name a server; none where both are files. Blocking, as inspect_server().
[[nodiscard]] std::vector<ServerDatabase> inspect_server_databases(const Settings& settings);

}  // namespace trimtab::coordinator
