#pragma once

// Where messages go: over which level of links, and what the worst of the links there is beside those that the level's
// costs were measured on. Links that the cluster gives for two nodes by name tell routes of one level apart; a
// cluster without any has one route of each level. Built once; any thread.

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "schema/cluster.hpp"

namespace trimtab::tuner {

enum class Placement : std::uint8_t { kIntraNode, kInterNode };
inline constexpr std::size_t kPlacements = 2;

struct Route {
  Placement placement = Placement::kIntraNode;
  bool named = false;   // the bandwidth of every link is given for its nodes: the level's need not be known
  double share = 1;     // of the bandwidth
  double added_ms = 0;  // what a message takes longer, whatever its size; < 0: shorter

  Route() = default;
  Route(Placement of) : placement(of) {}  // NOLINT(google-explicit-constructor): a level's links as they are
  bool operator==(const Route&) const = default;
  // Not whether it is that level's as it is: ask for the placement.
  bool operator==(Placement) const = delete;
};

// The dearer level's; of one level, what the worst of both links makes of each: their slowest and latest.
[[nodiscard]] Route worse(const Route& a, const Route& b);

// Of a link, as far as it is known: bandwidth 0 = it is not.
struct LinkSpeed {
  double bytes_per_s = 0;
  double latency_us = 0;
};

class Routes {
 public:
  Routes() = default;
  // `references`: of each placement what the costs were measured over, which bandwidths of named links are compared
  // with.
  Routes(const Cluster& cluster, const std::array<LinkSpeed, kPlacements>& references);

  [[nodiscard]] bool any_named() const { return !named_.empty(); }
  // Between two nodes, or inside of one.
  [[nodiscard]] Route between(std::int32_t a, std::int32_t b) const;
  // A collective of one group: the worst of the links between any two of its nodes. REQUIRES: `nodes` is not empty; in
  // any order, with repeats.
  [[nodiscard]] Route among(std::vector<std::int32_t>& nodes) const;
  // No route of this placement is worse.
  [[nodiscard]] Route worst(Placement placement) const { return worst_[static_cast<std::size_t>(placement)]; }

 private:
  struct Named {
    std::int32_t peer = 0;
    Route route;
  };
  [[nodiscard]] const Route* named(std::int32_t a, std::int32_t b) const;

  std::vector<std::vector<Named>> named_;  // by node, its peers ascending; empty where no link is named
  std::array<Route, kPlacements> worst_{Placement::kIntraNode, Placement::kInterNode};
};

}  // namespace trimtab::tuner
