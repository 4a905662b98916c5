#pragma once

// The flags that search, evaluate and plan check share: model, cluster, costs, cost model.

#include <string>

#include "documents.hpp"
#include "tuner/cost_model.hpp"
#include "verb.hpp"

namespace trimtab::cli {

struct PricedFlags {
  std::string model;
  std::string cluster;
  std::string costs;
  std::string fingerprint;
  std::string cost_model = "native";
  std::string calibration;  // a job's name
  bool allow_estimates = false;
};

// --model, --cluster (required), --costs (required unless `costs_optional`), --fingerprint, --cost-model,
// --calibration, --allow-estimates.
void add_priced_flags(CLI::App* verb, PricedFlags& flags, bool costs_optional);

// Everything that a plan's price is made of.
struct PricedInputs {
  Model model;
  Cluster cluster;
  std::string fingerprint;
  tuner::CostTable table;
  tuner::Calibration calibration;
};
[[nodiscard]] Result<PricedInputs> read_priced_inputs(const PricedFlags& flags);

// The broken rules as one error text: a line each.
[[nodiscard]] std::string rules_text(const std::string& path, const std::vector<std::string>& broken);

}  // namespace trimtab::cli
