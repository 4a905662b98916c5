#pragma once

// Which node each rank of traced jobs runs on, as far as their traces and whoever gives them say it. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::published {

class RankNodes {
 public:
  // `devices_per_node`: ranks fill nodes in their order; 0 = not said.
  explicit RankNodes(std::int32_t devices_per_node) : devices_per_node_(devices_per_node) {}

  // `number`: of the rank in its job, or where it does not tell it, of its trace. Processes of one file of Nsight
  // Systems share a node, named or not.
  void add(const TracedRank& rank, std::int32_t number);

  // Whether a group is on several nodes; nothing where nobody says it. `present`: its ranks whose traces are there.
  [[nodiscard]] std::optional<bool> on_several(const TracedGroup& group,
                                               const std::vector<std::int32_t>& present) const;
  // Of the whole job, where they are known: nodes, and the most ranks of one.
  struct Shape {
    std::int64_t nodes = 0;
    std::int64_t most_ranks = 0;
  };
  [[nodiscard]] std::optional<Shape> shape() const;
  // The job is taken to be on one node, since the devices that a rank sees there suffice for all of it.
  [[nodiscard]] bool taken_for_one() const;
  [[nodiscard]] std::int64_t world_size() const { return world_size_; }

 private:
  [[nodiscard]] bool all_named() const;

  std::int32_t devices_per_node_;
  struct Node {
    std::string name;
    bool named = false;  // else the name is a file's
    auto operator<=>(const Node&) const = default;
  };
  std::map<std::int32_t, Node> nodes_;
  bool numbered_ = true;  // every trace tells its rank
  std::int64_t world_size_ = 0;
  std::int64_t devices_there_ = 0;  // the most that a rank saw
};

}  // namespace trimtab::published
