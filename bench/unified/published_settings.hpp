#pragma once

// The published profiles as settings to search: a model, a cluster and its costs.

#include <optional>
#include <string>
#include <vector>

#include "schema/published.hpp"

namespace trimtab::bench {

// Of ../shared/peers/DIRECTORY, or of $TRIMTAB_PEERS. Nothing where it is not there, which standard error hears of;
// ends the program where it cannot be read.
[[nodiscard]] std::optional<Published> published_profile(const std::string& format, const std::string& directory);

// Points into what it was made of.
struct Setting {
  std::string name;
  const Model* model;
  const Cluster* cluster;
  std::vector<Cost> costs;
};
[[nodiscard]] std::vector<Setting> settings_of(const Published& published);

}  // namespace trimtab::bench
