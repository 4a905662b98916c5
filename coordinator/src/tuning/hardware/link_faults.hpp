#pragma once

// Links that their own counters call worse than they were, as agents tell
// (collectors/host/include/host/link_watch.hpp), and which costs rest on them. Pure.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tuning/hardware/link_changes.hpp"

namespace trimtab::coordinator {

struct LinkFault {
  std::string node;
  std::string link;          // "NVLink 3 of GPU 2"
  std::string reading;       // what of it
  std::string what;          // "is not active, and was"
  double confidence = 0;     // kNamedFrom at least
  std::int32_t device = -1;  // of the job, that the link is of; -1 = none is known
  bool within = false;       // messages inside of the node go over it
  bool across = false;       // messages to other nodes do
  std::int64_t step = 0;     // of the job, when it was told first
  bool doubts = false;       // steps have changed since: what goes over it is doubtful
};

// "NVLink 3 of GPU 2 of node n0 is not active, and was"; the first few of many.
[[nodiscard]] std::string to_text(const std::vector<LinkFault>& faults);
// The least of theirs.
[[nodiscard]] double confidence_of(const std::vector<LinkFault>& faults);
// What is told now takes the place of what was known; what is known already keeps its step. Returns what is new.
std::vector<LinkFault> take_faults(const std::vector<LinkFault>& told, std::int64_t step,
                                   std::vector<LinkFault>& known);
// Pairs of nodes between which links are doubtful, each with a device that has one of them (-1: any of a node's).
[[nodiscard]] std::map<NodePair, std::int32_t> doubtful_pairs(const std::vector<LinkFault>& faults,
                                                              const std::vector<std::string>& nodes);

}  // namespace trimtab::coordinator
