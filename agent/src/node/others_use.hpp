#pragma once

// How much of the machine's processor time others took while something was measured: other programs, other users, the
// hypervisor. Own is what the agent and the ranks took, with all that they started. What a host's clock times while
// others take a tenth of the machine is "disturbed" (schema/cost_source.hpp). Pure; loop thread only.

#include <cstddef>
#include <deque>
#include <set>

#include "host/process_facts.hpp"

namespace trimtab::agent {

// The processor time of these processes and of all that descend from them.
[[nodiscard]] Nanoseconds time_of_trees(const std::vector<host::ProcessUse>& processes, const std::set<pid_t>& roots);

class OthersUse final {
 public:
  // Of all processors, from which share on a measurement is disturbed.
  static constexpr double kDisturbs = 0.10;
  static constexpr std::size_t kMostLooks = 1024;

  struct Look {
    Nanoseconds at{0};  // monotonic
    host::MachineUse machine;
    Nanoseconds own{0};
  };
  void add(const Look& look);
  // From the last look before `since` to the latest one; 0 where there are no two. Of a share that fell since, as when
  // a process that was counted has ended, nothing is known: it counts as others'.
  [[nodiscard]] double share_since(Nanoseconds since) const;
  [[nodiscard]] bool disturbed_since(Nanoseconds since) const { return share_since(since) > kDisturbs; }
  // Between the two latest looks.
  [[nodiscard]] bool disturbed() const { return looks_.size() >= 2 && disturbed_since(looks_[looks_.size() - 2].at); }

 private:
  std::deque<Look> looks_;
};

}  // namespace trimtab::agent
