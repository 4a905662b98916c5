#pragma once

// Aceso's published profile and search results, as documents and costs: test support. Reads the neutral files of
// ../shared/peers/aceso_v100 (or $TRIMTAB_PEERS/aceso_v100) through zcat.

#include <optional>
#include <string>
#include <vector>

#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::peer {

// Nothing where the data is not there: the test case is skipped (skipping.hpp).
[[nodiscard]] std::optional<std::string> folder();

struct Setting {
  std::string model, size;
  std::int32_t nodes = 1, devices_per_node = 1;
  double memory_limit_mib = 28000;
  [[nodiscard]] std::int32_t devices() const { return nodes * devices_per_node; }
  [[nodiscard]] std::string name() const { return model + "-" + size; }
};

// A row of models.csv as this product's documents.
struct World {
  Setting setting;
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};
[[nodiscard]] std::vector<Setting> settings(const std::string& folder);
[[nodiscard]] World world(const std::string& folder, const Setting& setting);

struct PeerStage {
  double forward_ms, backward_ms, recompute_ms, in_ms, out_ms, reshard_ms, memory_mib, iteration_ms;
};
struct PeerResult {
  Setting setting;
  Plan plan;
  double iteration_ms = 0;
  std::vector<PeerStage> stages;
};
[[nodiscard]] std::vector<PeerResult> results(const std::string& folder);

struct Optimum {
  std::string model, size;
  double peer_ms = 0, optimum_ms = 0;
  bool exact = false;
};
[[nodiscard]] std::vector<Optimum> optima(const std::string& folder);

}  // namespace trimtab::tuner::peer
