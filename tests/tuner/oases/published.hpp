#pragma once

// The published profile through the product's own import, and what the published planner answers from it.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "papers/oases_cost_model.hpp"
#include "schema/published.hpp"

namespace trimtab::tuner::oases::test {

// A setting of the paper's table III on a number of devices.
struct Setting {
  std::string name;  // "llama-7B"
  std::int32_t devices = 32;
};
[[nodiscard]] std::vector<Setting> settings();

struct World {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};
[[nodiscard]] World world(const Setting& setting);
// Nothing where no degree is priced.
[[nodiscard]] std::optional<OasesCostModel> cost_model(const Setting& setting, OasesVariant variant);

// What the peer says of a setting; plans by node, as degrees.
struct PeerAnswer {
  Setting setting;
  std::vector<std::int32_t> degrees;  // usable
  bool feasible = false;
  std::vector<std::int32_t> plan, deployed, paper_plan;
  double published_ms = 0, solve_s = 0, memory = 0;
  double deployed_published_ms = 0, deployed_memory = 0;
  double plan_paper_ms = 0, deployed_paper_ms = 0, paper_ms = 0, paper_memory = 0;
};
// Of the settings whose hidden size is in the profile.
[[nodiscard]] std::vector<PeerAnswer> peer_answers();

}  // namespace trimtab::tuner::oases::test
