#pragma once

// The nodes of a simulated cluster: those that the job's ranks are on, those that are away, and those that are there
// beside it. Not thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "schema/cluster.hpp"
#include "tuning/elastic/joining_nodes.hpp"
#include "tuning/event.hpp"

namespace trimtab::coordinator {

class SimulatedNodes {
 public:
  // The job begins on all of them.
  explicit SimulatedNodes(const Cluster& cluster);

  // The nodes of the job's ranks, and their links.
  [[nodiscard]] const Cluster& job() const { return job_; }
  [[nodiscard]] std::vector<NodeShare> shares() const;
  [[nodiscard]] bool is_known(const std::string& node) const { return known_.contains(node); }
  [[nodiscard]] bool has_ranks(const std::string& node) const;
  [[nodiscard]] bool is_away(const std::string& node) const { return away_.contains(node); }
  // What its agent says of it.
  [[nodiscard]] NodeBack introduction(const std::string& node) const;

  void leave(const std::string& node, Nanoseconds until) { away_[node] = until; }
  // Those whose time has come: they are there again.
  [[nodiscard]] std::vector<std::string> take_returns(Nanoseconds now);
  // When the next one comes back.
  [[nodiscard]] std::optional<Nanoseconds> next_return() const;
  // One that nobody knew: as many devices and as much memory as the first has.
  void add(const std::string& node);
  // Other hardware from here on, under the same name.
  void replace(const std::string& node, const std::string& fingerprint);

  // The job's ranks are on these from here on. False where they were already. REQUIRES: known.
  [[nodiscard]] bool run_on(const std::vector<NodeShare>& nodes);
  // As the coordinator places agents that join (Membership::place_more).
  [[nodiscard]] std::optional<LargerPlacement> place_more(std::int32_t world_size,
                                                          const std::vector<NodeShare>& present) const;

 private:
  [[nodiscard]] Cluster cluster_of(const std::vector<NodeShare>& nodes) const;

  Cluster job_;
  std::vector<Link> links_;                  // of all nodes
  std::map<std::string, Node> known_;        // with all of their devices
  std::map<std::string, Nanoseconds> away_;  // until when
};

}  // namespace trimtab::coordinator
