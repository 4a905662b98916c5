#pragma once

// The coordinator's settings. Flags win over TRIMTAB_* variables, which win over the file. Pure.

#include <cstdint>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/units.hpp"
#include "coordinator/site_policy.hpp"
#include "net/credentials.hpp"
#include "net/otlp_settings.hpp"
#include "schema/settings/settings.hpp"

namespace trimtab::coordinator {

// Both ends are in it.
struct PortRange {
  std::uint16_t first = 20'000;
  std::uint16_t last = 29'999;
};

// What the coordinator itself is to take of its machine at most. More is warned of; beyond `costs` no costs are taken,
// and shares of `memory` are what jobs, requests, answers and agents' frames may take (src/accounts.hpp).
struct Budgets {
  Bytes memory = Bytes{2} << 30;
  double cores = 2;               // over a minute: the loop's and the search's
  Bytes disk = Bytes{20} << 30;   // databases that are files, with their logs
  Bytes costs = Bytes{16} << 30;  // rows of the cost database, where it is a file: none are stored beyond it
};

struct Settings {
  std::string address = "127.0.0.1";
  std::uint16_t port = 7420;
  std::string state_directory;  // empty = $XDG_STATE_HOME/trimtab, else ~/.local/state/trimtab
  std::string cost_database;    // a file or postgresql://...; empty = costs.db in the state directory
  std::string state_database;   // the same; empty = coordinator.db there
  std::string log_level = "info";
  std::string log_file;  // empty = standard error, whose reader keeps it
  Bytes log_limit = Bytes{16} << 20;
  std::string port_file;  // written once the port is bound; empty = none
  Nanoseconds search_time = std::chrono::seconds(5);
  std::uint64_t search_evaluations = 200'000;
  Bytes max_frame = Bytes{8} << 20;                     // of an agent, and the body of a request
  Nanoseconds request_time = std::chrono::seconds(60);  // that a request may take to come; no key, tests shorten it
  std::uint32_t max_message_rate = 10'000;              // of each agent, per second
  Bytes max_byte_rate = Bytes{32} << 20;                // the same of its bytes; where it is less, max_frame
  Bytes peer_queue = Bytes{32} << 20;                   // what may wait for an agent that reads slowly
  std::uint32_t max_request_rate = 100;                 // of each person, per second
  std::uint32_t max_connections = 4096;
  std::uint32_t max_nodes_of_token = 256;                      // names that an agent's token may bring
  std::uint32_t max_jobs_of_tenant = 256;                      // that are not over
  std::uint32_t max_jobs = 4096;                               // that are known, over or not
  Nanoseconds node_timeout = std::chrono::seconds(10);         // of silence: then a node is lost
  PortRange rendezvous_ports;                                  // on nodes, where ranks of several meet
  net::CredentialFiles tls;                                    // all empty = no TLS
  Nanoseconds job_retention = std::chrono::hours(24 * 90);     // of runs that are over; 0 = for ever
  Nanoseconds audit_retention = std::chrono::hours(24 * 365);  // of the audit log's entries; 0 = for ever
  std::string tokens;       // file of the tokens' hashes; empty = everybody may everything
  std::string site_policy;  // file of what jobs may ask for; empty = everything is allowed
  SitePolicy site;          // what it says; no key, the daemon reads it
  std::string deny_list;    // names and serial numbers that are not let in; empty = denied in the state directory
  Budgets budgets;
  Bytes system_memory = 0;  // that the system lets the process have; no key, 0 = not looked at
  net::OtlpSettings otlp;   // where metrics are posted, too; nowhere unless told

  // What accounts are shares of.
  [[nodiscard]] Bytes accounted_memory() const;
};

[[nodiscard]] const SettingTable<Settings>& coordinator_settings();

// What no key can see by itself: beyond loopback TLS and tokens are needed, and TLS is three files.
[[nodiscard]] Status check_settings(const Settings& settings);

}  // namespace trimtab::coordinator
