#pragma once

// What communication costs where: measured curves by group size and placement, else the link's bandwidth and latency.
// Built once; any thread.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "curve.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"

namespace trimtab::tuner {

enum class Placement : std::uint8_t { kIntraNode, kInterNode };

[[nodiscard]] const char* to_string(Placement placement);
[[nodiscard]] Placement placement_of(const Cluster& cluster, const std::vector<std::int32_t>& devices);

// How much slower each side runs while the other does.
struct OverlapSlowdown {
  double computation = 1.0;    // alpha
  double communication = 1.0;  // beta
  bool measured = false;
};

class LinkCosts {
 public:
  LinkCosts() = default;
  LinkCosts(const Cluster& cluster, const std::vector<Cost>& costs, bool allow_estimates);

  // Milliseconds. Nothing to move costs nothing.
  [[nodiscard]] Value all_reduce(std::int64_t bytes, std::int32_t group_size, Placement placement) const;
  [[nodiscard]] Value point_to_point(std::int64_t bytes, std::int32_t from_node, std::int32_t to_node) const;
  [[nodiscard]] OverlapSlowdown overlap(std::int32_t group_size, Placement placement) const;
  [[nodiscard]] bool any_measured() const { return !all_reduce_.empty() || !point_to_point_.empty(); }

 private:
  using Group = std::pair<std::int32_t, Placement>;
  [[nodiscard]] Value price(const Curve* curve, std::int64_t bytes, Value link_estimate) const;
  [[nodiscard]] const Link* link(Placement placement) const;
  [[nodiscard]] const Link* link_between(std::int32_t from_node, std::int32_t to_node) const;

  bool allow_estimates_ = false;
  std::map<Group, Curve> all_reduce_;
  std::map<Placement, Curve> point_to_point_;
  std::map<Group, OverlapSlowdown> overlap_;
  std::vector<Link> links_;
  std::vector<std::string> nodes_;
};

}  // namespace trimtab::tuner
