#pragma once

// Nodes that could join a job, as its tuning hears of them: costs were measured on the nodes that it has, so how much
// slower the others' devices are is taken from probes of all of them. Pure.

#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

// A job's nodes as they are, and others behind them.
struct LargerPlacement {
  std::vector<NodeShare> nodes;
  Cluster cluster;
  std::vector<NodeShare> joined;  // the others among them
  std::string key;                // differs when other agents join
};

// Refused are nodes of another fingerprint whose speed no probe has told beside that of the job's own.
[[nodiscard]] NodesOffered describe_joining(const LargerPlacement& larger, const std::string& costs_hardware,
                                            const std::vector<Probe>& probes);

}  // namespace trimtab::coordinator
