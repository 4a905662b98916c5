#pragma once

// A communicator over a rank on each agent's node, in which an all-reduce is made every second: what each rank's agent
// may tell of it, and how many of them a coordinator can have joined.

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "costs/collective_samples.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedCollectives {
 public:
  static constexpr const char* kSubject = "all_reduce";  // of the cost that they become

  explicit SimulatedCollectives(VirtualTime& time) : time_(time) {}

  void set_ranks(std::uint32_t ranks) { ranks_ = ranks; }
  // Of this rank, what has been made since it was last asked. Nobody is told of it again.
  [[nodiscard]] std::vector<agent::CollectiveStamp> take(std::uint32_t rank);
  // These are on their way to the coordinator.
  void told(const std::vector<agent::CollectiveStamp>& stamps);
  // Of which each rank's stamp has been on its way.
  [[nodiscard]] std::uint64_t whole() const;

 private:
  VirtualTime& time_;
  std::uint32_t ranks_ = 0;
  std::map<std::uint32_t, std::uint32_t> next_;            // by rank
  std::map<std::uint32_t, std::set<std::uint32_t>> told_;  // by number: of which ranks
};

}  // namespace trimtab::test
