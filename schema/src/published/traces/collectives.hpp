#pragma once

// What events of PyTorch Profiler say of collectives, gathered for one rank. Single-threaded.

#include <cstdint>
#include <map>
#include <vector>

#include "published/traces/chrome_events.hpp"
#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

class Collectives {
 public:
  // Its place, counted from 1, for TracedWork; 0 where it does not say how many bytes of whom, or contradicts itself.
  // `on_host`: it is a range of Gloo's and the like, not a kernel of NCCL.
  [[nodiscard]] std::uint32_t add(const ChromeEvent& event, TracedKind kind, bool on_host);
  // Into `rank`, whose work is settled: with their times, steps and what was computed beside them. What ran on the host
  // names no group: it is the whole job's, where `one_group` says that there is no other.
  void tell(TracedRank& rank, bool one_group);

 private:
  std::vector<TracedCollective> all_;
  std::map<TracedGroup, std::uint32_t> groups_;
};

// Into the rank's collectives, by the beginnings of its settled work: durations, steps, what was computed beside them.
// Work whose collective says no size counts as sizeless.
void tell_times(TracedRank& rank);

}  // namespace trimtab::published
