#pragma once

// What communication costs where: measured curves by group size and placement, else the link's bandwidth and latency.
// Links between nodes that differ from those of their level change either (Route). Built once; any thread.

#include "native/costs/curve.hpp"
#include "schema/cluster.hpp"

namespace trimtab::tuner {

// Where messages go: over which level of links, and what the worst of the links there is beside those that the level's
// costs were measured on. Links that the cluster gives for two nodes by name tell routes of one level apart; a
// cluster without any has one route of each level. Built once; any thread.
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

enum class Primitive : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };
inline constexpr std::size_t kPrimitives = 4;
// Between a device and pinned memory of its host.
enum class HostCopy : std::uint8_t { kHostToDevice, kDeviceToHost };

[[nodiscard]] const char* to_string(Placement placement);
[[nodiscard]] const char* to_string(Primitive primitive);
[[nodiscard]] const char* to_string(HostCopy direction);
// Whether a point-to-point cost of this subject is such a copy, not a transfer between devices.
[[nodiscard]] bool is_host_copy(const std::string& subject);
[[nodiscard]] Placement placement_of(const Cluster& cluster, const std::vector<std::int32_t>& devices);

class LinkCosts {
 public:
  LinkCosts() = default;
  LinkCosts(const Cluster& cluster, const std::vector<ChosenCost>& costs, bool allow_estimates);

  // Milliseconds; `bytes` is one rank's input. Nothing to move costs nothing. In this order: measured; estimates, where
  // they are allowed, from other measured sizes (Curve::of_bytes; one size alone, by the link's latency and bandwidth)
  // or the same group's all-reduce; the link's bandwidth and latency (a ring; an all-reduce takes a tree where that is
  // faster); where estimates are allowed, the measured group of nearest size. What is measured is of the level's links:
  // over others it takes as much longer as their bandwidth is less, and each message of its ring what that takes
  // longer.
  [[nodiscard]] Value collective(Primitive primitive, std::int64_t bytes, std::int32_t group_size,
                                 const Route& route) const;
  [[nodiscard]] Value all_reduce(std::int64_t bytes, std::int32_t group_size, const Route& route) const {
    return collective(Primitive::kAllReduce, bytes, group_size, route);
  }
  [[nodiscard]] Value point_to_point(std::int64_t bytes, std::int32_t from_node, std::int32_t to_node) const;
  // Whether copies both ways are measured at all.
  [[nodiscard]] bool knows_host_copies() const { return !host_copies_[0].empty() && !host_copies_[1].empty(); }
  // As measured, or the nearest size where estimates are allowed: no link of a cluster says it.
  [[nodiscard]] Value host_copy(HostCopy direction, std::int64_t bytes) const;
  [[nodiscard]] bool allows_estimates() const { return allow_estimates_; }
  [[nodiscard]] const Routes& routes() const { return routes_; }

 private:
  using Group = std::pair<std::int32_t, Placement>;
  using Curves = std::map<Group, Curve>;
  [[nodiscard]] Value from_curve(Primitive primitive, std::int64_t bytes, const Group& group) const;
  [[nodiscard]] Value from_all_reduce(Primitive primitive, std::int64_t bytes, const Group& group) const;
  [[nodiscard]] Value from_nearest_group(Primitive primitive, std::int64_t bytes, const Group& group) const;
  // Of the worst link of the route.
  [[nodiscard]] LinkSpeed speed(const Route& route) const;

  bool allow_estimates_ = false;
  std::array<Curves, kPrimitives> collectives_;
  std::map<Placement, Curve> point_to_point_;
  std::array<Curve, 2> host_copies_;
  std::array<LinkSpeed, kPlacements> levels_;      // as the cluster gives them
  std::array<LinkSpeed, kPlacements> references_;  // the level's, else what was measured, else the fastest named link's
  Routes routes_;
};

}  // namespace trimtab::tuner
