#include "tuning/hardware/link_changes.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "base/numbers.hpp"

namespace trimtab::coordinator {
namespace {

// From what its level is, of a pair: less is the probes' noise.
constexpr double kLeastRatio = 0.1;
constexpr double kLeastMs = 0.25;  // of a message
constexpr std::size_t kNamed = 3;  // pairs, in a text

constexpr std::string_view kRank = " rank ";

// A node whose ranks live in several networks has an end of links for each: "n0 rank 2".
std::string node_of_end(const std::string& end) {
  const std::size_t at = end.rfind(kRank);
  if (at == std::string::npos || at == 0) return end;
  const std::string_view number = std::string_view(end).substr(at + kRank.size());
  const bool is_rank = !number.empty() && std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return is_rank ? end.substr(0, at) : end;
}

NodePair pair_of(const Probe& probe) {
  return node_pair(node_of_end(probe.node), node_of_end(probe.peer.empty() ? probe.node : probe.peer));
}

bool differ(const LinkChange& a, const LinkChange& b) {
  return std::abs(std::log(a.share / b.share)) >= kLeastRatio || std::abs(a.message_ms - b.message_ms) >= kLeastMs;
}

// The worst of what is known of one pair.
struct OfPair {
  std::vector<double> shares;
  std::vector<double> messages_ms;

  [[nodiscard]] LinkChange worst() const {
    LinkChange change;
    if (!shares.empty()) change.share = std::ranges::min(shares);
    if (!messages_ms.empty()) change.message_ms = std::ranges::max(messages_ms);
    return change;
  }
};

using Pairs = std::map<NodePair, LinkChange>;

Pairs probed_pairs(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  std::map<NodePair, OfPair> known;
  for (const Finding& one : compared_links(before, now)) {
    OfPair& of = known[pair_of(one.probe)];
    if (one.latency) {
      of.messages_ms.push_back((one.probe.round_trip_ms - one.before_ms) / 2);
    } else {
      of.shares.push_back(one.share);
    }
  }
  Pairs pairs;
  for (const auto& [pair, of] : known) pairs[pair] = of.worst();
  return pairs;
}

// As far as all have gone: what is above none of some is below none of the others.
double in_common(const std::vector<double>& changes) {
  if (changes.empty()) return 0;
  const auto [least, most] = std::ranges::minmax(changes);
  return least > 0 ? least : most < 0 ? most : 0;
}

LinkChange of_all(const Pairs& pairs, const std::string& level) {
  std::vector<double> log_shares;
  std::vector<double> messages_ms;
  for (const auto& [pair, change] : pairs) {
    if (level_of(pair) != level) continue;
    log_shares.push_back(std::log(change.share));
    messages_ms.push_back(change.message_ms);
  }
  return {std::exp(in_common(log_shares)), in_common(messages_ms)};
}

// By node, the best of its probed links to others.
std::map<std::string, LinkChange> best_of_nodes(const Pairs& pairs) {
  std::map<std::string, LinkChange> best;
  for (const auto& [pair, change] : pairs) {
    if (pair.first == pair.second) continue;
    for (const std::string& node : {pair.first, pair.second}) {
      const auto [found, fresh] = best.try_emplace(node, change);
      if (fresh) continue;
      found->second.share = std::max(found->second.share, change.share);
      found->second.message_ms = std::min(found->second.message_ms, change.message_ms);
    }
  }
  return best;
}

void add_unprobed(const Pairs& pairs, LinkChanges& changes) {
  const LinkChange level = changes.of_level("inter_node");
  const std::map<std::string, LinkChange> best = best_of_nodes(pairs);
  for (const auto& [node, of_node] : best) {
    if (!differ(of_node, level)) continue;
    for (const auto& [peer, of_peer] : best) {
      const NodePair pair = node_pair(node, peer);
      if (peer == node || pairs.contains(pair)) continue;
      changes.unprobed[pair] = {std::min(of_node.share, of_peer.share),
                                std::max(of_node.message_ms, of_peer.message_ms)};
    }
  }
  std::erase_if(changes.unprobed, [&](const auto& one) { return !differ(one.second, level); });
}

std::string words(const std::string& name, bool several, const LinkChange& change) {
  std::string text = name;
  if (change.share != 1)
    text += " at " + format_percent(change.share) + (several ? " of their" : " of its") + " bandwidth";
  if (change.message_ms == 0) return text;
  return text + (change.share != 1 ? ", " : ": ") + format_ms(std::abs(change.message_ms)) +
         (change.message_ms > 0 ? " more" : " less") + " for a message";
}

std::string link_words(const NodePair& pair, const LinkChange& change) {
  if (pair.first == pair.second) return words("the links inside of " + pair.first, true, change);
  return words("the link of " + pair.first + " to " + pair.second, false, change);
}

}  // namespace

NodePair node_pair(std::string a, std::string b) {
  if (b < a) a.swap(b);
  return {std::move(a), std::move(b)};
}

std::string level_of(const NodePair& pair) {
  return pair.first == pair.second ? "intra_node" : "inter_node";
}

LinkChange LinkChanges::of_level(const std::string& level) const {
  const auto found = levels.find(level);
  return found == levels.end() ? LinkChange{} : found->second;
}

LinkChanges link_changes(const std::vector<Probe>& before, const std::vector<Probe>& now) {
  const Pairs probed = probed_pairs(before, now);
  LinkChanges changes;
  for (const char* const level : {"intra_node", "inter_node"}) {
    const LinkChange common = of_all(probed, level);
    if (common != LinkChange{}) changes.levels[level] = common;
  }
  for (const auto& [pair, change] : probed) {
    if (differ(change, changes.of_level(level_of(pair)))) changes.pairs[pair] = change;
  }
  add_unprobed(probed, changes);
  return changes;
}

std::string to_text(const LinkChanges& changes) {
  std::string text;
  const auto add = [&text](const std::string& one) { text += (text.empty() ? "" : "; ") + one; };
  for (const auto& [level, change] : changes.levels) add(words(level + " links", true, change));
  std::size_t named = 0;
  for (const auto& [pair, change] : changes.pairs) {
    if (++named <= kNamed) add(link_words(pair, change));
  }
  if (named > kNamed) add("and " + std::to_string(named - kNamed) + " links more");
  if (!changes.unprobed.empty()) {
    add("so are taken " + std::to_string(changes.unprobed.size()) + " links of the same nodes that nobody has probed");
  }
  return text;
}

}  // namespace trimtab::coordinator
