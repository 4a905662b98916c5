#pragma once

// What is read of the machine and of the ranks' processes, as metrics. Names: docs/metrics.md.

#include "agent_database.hpp"
#include "host/sampler.hpp"
#include "host/source.hpp"
#include "net/metric_text.hpp"

namespace trimtab::agent {

// Samples of one name must stand together, as host::Sampler gives them.
[[nodiscard]] std::vector<net::Metric> host_metrics(const host::Samples& samples);

// Of the ranks that run; `root` is "/" in production. A rank that has just ended is left out.
[[nodiscard]] std::vector<net::Metric> rank_process_metrics(const std::vector<LedgerRank>& ranks,
                                                            const std::string& root);

// One line for the log, empty where there is nothing to say: that a source works is expected.
[[nodiscard]] std::string source_line(const host::SourceReport& report);

}  // namespace trimtab::agent
