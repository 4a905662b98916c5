#pragma once

// One run: so many agents' connections to one coordinator, each with so many batches of costs a second, for a time;
// then the database is compared with what was acknowledged. One process, one event loop for all agents.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "metric_scraper.hpp"
#include "schema/statistics.hpp"

namespace trimtab::load {

struct LoadOptions {
  std::string program;  // trimtab-coordinator
  std::uint32_t agents = 100;
  double batches_per_second = 1;  // of each agent
  double seconds = 10;
  std::uint32_t costs = 16;  // of a batch
  std::uint32_t values = 4;  // of a cost
  bool tls = false;
  std::string cost_database;           // postgresql://...; empty: a file in the state directory
  std::vector<std::string> arguments;  // more of the coordinator's
  std::optional<double> kill_at;       // SIGKILL, and a new coordinator a second later
  std::optional<double> stop_at;       // SIGSTOP
  double stop_seconds = 10;
  double scrape_seconds = 5;  // between two readings of /metrics; 0: none
};

struct LoadResult {
  std::uint64_t made = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t refused = 0;
  std::uint64_t sent_again = 0;
  std::uint64_t closes = 0;
  double connect_seconds = 0;  // until every agent was welcome
  double per_second = 0;       // acknowledged while batches were made
  std::uint64_t behind = 0;    // not acknowledged when the last one had been made
  double drain_seconds = 0;    // and until it was
  Statistics latency_ns;
  double coordinator_cores = 0;  // CPU time by time, while batches were made
  double load_cores = 0;
  std::vector<Bytes> resident;  // of the coordinator, each second
  Bytes resident_peak = 0;
  std::uint64_t descriptors = 0;
  Bytes database = 0;
  Bytes log = 0;                             // the database's write-ahead log, the largest seen
  std::optional<double> batches_per_commit;  // where the coordinator could be asked
  double read_seconds = 0;                   // to read all costs from the database at the end
  std::uint64_t miscounted = 0;              // costs whose statistics are not those of each batch once
  Scrapes scrapes;                           // while batches were made
};

// An error when the coordinator does not start, or not all agents are welcome within a minute.
[[nodiscard]] Result<LoadResult> run_load(const LoadOptions& options);

}  // namespace trimtab::load
