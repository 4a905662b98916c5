#pragma once

// What has become of the links that costs were measured over, pair of nodes by pair of nodes. Pure.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tuning/hardware/diagnosis.hpp"

namespace trimtab::coordinator {

// What a link is, beside what it was when costs were measured.
struct LinkChange {
  double share = 1;         // of its bandwidth
  double message_ms = 0.0;  // what a message takes longer on its way, whatever its size; < 0: shorter
  bool operator==(const LinkChange&) const = default;
};

// Two nodes, the lesser name first; or one twice: the links inside of it.
using NodePair = std::pair<std::string, std::string>;
[[nodiscard]] NodePair node_pair(std::string a, std::string b);
[[nodiscard]] std::string level_of(const NodePair& pair);  // "intra_node", "inter_node"

struct LinkChanges {
  // What all probed links of a level have in common: whatever was measured over it is wrong.
  std::map<std::string, LinkChange> levels;
  // Pairs that are not as their level is then, each beside what it was when costs were measured; and those that
  // counters make doubtful (SearchTask::doubted).
  std::map<NodePair, LinkChange> pairs;
  // The same of pairs that nobody has probed. Such a link is taken to be as the best probed one of either node, the
  // worse of the two: where all that is known of a node is slow, the node may be why; where it reaches another as ever,
  // it is not.
  std::map<NodePair, LinkChange> unprobed;

  [[nodiscard]] bool empty() const { return levels.empty() && pairs.empty() && unprobed.empty(); }
  [[nodiscard]] LinkChange of_level(const std::string& level) const;
};

// What has clearly changed. Of several probes between the same nodes the worst counts.
[[nodiscard]] LinkChanges link_changes(const std::vector<Probe>& before, const std::vector<Probe>& now);
// "inter_node links at 38 % of their bandwidth, 10 ms more for a message; the link of n3 to n4 at 20 % of its
// bandwidth";
// "" where nothing has changed.
[[nodiscard]] std::string to_text(const LinkChanges& changes);

}  // namespace trimtab::coordinator
