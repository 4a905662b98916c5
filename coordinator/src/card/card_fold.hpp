#pragma once

// Folds what the ranks of one job tell into its verdict card (docs/card.md). Pure, and bounded: some kilobytes a rank.
// Single-threaded. A watched and a launched job are the same to it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "card/card_step.hpp"
#include "card/evidence.hpp"
#include "card/kept_steps.hpp"
#include "schema/api/card.hpp"
#include "schema/api/facts.hpp"
#include "schema/api/live.hpp"

namespace trimtab::coordinator {

class CardFold {
 public:
  static constexpr std::int32_t kMostRanks = 65'536;

  CardFold(std::string job, std::int32_t world_size);

  // The rank begins launch number `launch` on that node. Of a later launch than before: its earlier steps are
  // forgotten. Ranks from kMostRanks on are not kept, here and below. Neither are ranks below 0.
  void connected(std::int32_t rank, const std::string& node, std::int64_t launch);
  void step(std::int32_t rank, const CardStep& step);
  // The latest counts.
  void facts(std::int32_t rank, api::RankFacts facts);
  // What its agent says of its kernels and ranges; the latest counts.
  void activity(std::int32_t rank, const api::LiveRank& activity, bool unknown_cupti = false);
  // What a node of its ranks is; of a job as many as it has ranks.
  void on_node(const std::string& node, Fingerprint fingerprint);
  // All links that have been probed, as of the last probe.
  void links(std::vector<CardLink> links);

  [[nodiscard]] std::int32_t world_size() const { return world_size_; }
  [[nodiscard]] api::Card card() const;

 private:
  [[nodiscard]] RankEvidence* rank(std::int32_t number);

  std::string job_;
  std::int32_t world_size_;
  std::map<std::int32_t, RankEvidence> ranks_;
  std::vector<CardLink> links_;
  std::map<std::string, Fingerprint> nodes_;
};

}  // namespace trimtab::coordinator
