#pragma once

// Profiles that others have published, and other programs' measurements, read into costs and documents. A format is one
// author's files (a directory of CSV tables and op lists, JSON files); nothing in them is altered. Reading is all or
// nothing: the first file, line and column that is not as expected is the error. Reads files; no clocks, no threads, no
// database.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "schema/model.hpp"

namespace trimtab {

// The costs of one profile run. Runs that measured the same key differently have different fingerprints, so they never
// merge; the fingerprint's environment says who published them, where, and a digest of the costs.
struct PublishedCosts {
  Fingerprint fingerprint;
  std::string source;  // "import:REPOSITORY@COMMIT"
  std::string origin;  // of the one batch (number 1) that these costs are: the same for the same costs
  std::vector<Cost> costs;
};

struct PublishedModel {
  std::string file;  // "gpt-1_3B.json"
  Model model;
};

struct PublishedCluster {
  std::string file;  // "gpt-1_3B.cluster.json"
  Cluster cluster;   // its nodes name the fingerprint of the costs that belong to it
};

struct Published {
  std::vector<PublishedCosts> costs;
  std::vector<PublishedModel> models;
  std::vector<PublishedCluster> clusters;
  std::vector<std::string> remarks;  // what was published in part only
};

// "aceso", "galvatron" and "oases" (a directory each), "nccl-tests" (files that nccl-tests wrote with -J).
[[nodiscard]] const std::vector<std::string_view>& published_formats();

// The error names FILE:LINE (or FILE: JSON path), what was expected and what was found. An unknown format is refused by
// listing those that are known.
[[nodiscard]] Result<Published> read_published(std::string_view format, const std::vector<std::string>& paths);

}  // namespace trimtab
