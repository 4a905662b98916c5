#include "agents/node_names.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trimtab::coordinator {

void NodeNames::know(Stored stored, MayHave may_have, Keep keep) {
  may_have_ = std::move(may_have);
  keep_ = std::move(keep);
  names_ = std::move(stored);
  owners_.clear();
  for (const auto& [owner, nodes] : names_) {
    for (const std::string& node : nodes) owners_.emplace(node, owner);
  }
}

// Where no token vouches for a node, its name is the machine's users', who are trusted alike.
Status NodeNames::take(const std::string& node, const std::string& owner,
                       const std::function<bool(const std::string& node)>& is_kept) {
  if (owner.empty()) return {};
  const std::string former = owner_of(node);
  if (former == owner) return {};
  if (!former.empty() && may_have(former, node)) {
    return no(
        "the node name " + node + " is another token's, which used it first, and the token of " + owner +
        " may use names of its own alone: name the node otherwise (--node), start its agent with the token " +
        "that has the name, remove that token ('trimtab token remove'; the coordinator's log says whose it is), " +
        "or let the line of " + owner + " in the file of tokens name the node (nodes=" + node + ")");
  }
  std::vector<std::string> own = names_[owner];
  const auto kept = std::ranges::count_if(own, is_kept);
  if (std::cmp_greater_equal(kept, most_of_token_)) {
    return no("the token of " + owner + " has used " + std::to_string(kept) + " names of nodes, and may use " +
              std::to_string(most_of_token_) + " (max_nodes_of_token): node " + node +
              " needs a token of its own. Those of jobs that are not over are kept. Other lost nodes that no job has "
              "had are forgotten after an hour");
  }
  while (own.size() >= kTimesRemembered * most_of_token_) {
    const auto newest = std::find_if_not(own.rbegin(), own.rend(), is_kept);
    own.erase(std::next(newest).base());
  }
  own.push_back(node);
  if (!former.empty()) {
    std::vector<std::string> left = names_[former];
    std::erase(left, node);
    TRIMTAB_TRY_STATUS(set(former, std::move(left)));
  }
  return set(owner, std::move(own));
}

std::string NodeNames::owner_of(const std::string& node) const {
  const auto held = owners_.find(node);
  return held == owners_.end() ? "" : held->second;
}

Status NodeNames::release() {
  const Stored before = names_;
  for (const auto& [owner, nodes] : before) {
    std::vector<std::string> left = nodes;
    std::erase_if(left, [this, &of = owner](const std::string& node) { return !may_have(of, node); });
    if (left.size() < nodes.size()) TRIMTAB_TRY_STATUS(set(owner, std::move(left)));
  }
  return {};
}

Status NodeNames::set(const std::string& owner, std::vector<std::string> nodes) {
  if (keep_) {
    const Status kept = keep_(owner, nodes);
    if (!kept.ok()) return wrap("that names of nodes are the token's of " + owner + " cannot be stored", kept.error());
  }
  for (const std::string& node : names_[owner]) owners_.erase(node);
  for (const std::string& node : nodes) owners_[node] = owner;
  if (nodes.empty()) {
    names_.erase(owner);
  } else {
    names_[owner] = std::move(nodes);
  }
  return {};
}

}  // namespace trimtab::coordinator
