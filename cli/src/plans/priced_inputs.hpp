#pragma once

// The flags that search, evaluate and plan check share: model, cluster, costs, cost model.

#include "documents.hpp"
#include "tuner/cost_model.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

struct PricedFlags {
  std::string model;
  std::string cluster;
  std::string costs;
  std::string fingerprint;
  std::string cost_model = "native";
  std::string calibration;  // a job's name
  std::string measured;     // a file (measured_plans.hpp); the verb takes it
  bool allow_estimates = false;
  double device_share = 0;
};

// What a verb prices by measured costs: always, where costs are given, or where nothing else is asked (then the verb
// itself looks for what is missing).
enum class Priced { kAlways, kByCosts, kOtherwise };

// --model, --cluster (required but for kOtherwise), --costs (required for kAlways), --fingerprint, --cost-model,
// --calibration, --allow-estimates, --device-share.
void add_priced_flags(CLI::App* verb, PricedFlags& flags, Priced priced);

// Everything that a plan's price is made of.
struct PricedInputs {
  std::string fingerprint;
  std::unique_ptr<tuner::CostModel> cost_model;  // knows the model and the cluster
};
[[nodiscard]] Result<PricedInputs> read_priced_inputs(const PricedFlags& flags, std::ostream& remarks);

// Refuses a plan that breaks a rule, or sets knobs that the cost model does not price, naming each.
[[nodiscard]] Status check_plan(const std::string& path, const Plan& plan, const tuner::CostModel& cost_model);

// The broken rules as one error text: a line each.
[[nodiscard]] std::string rules_text(const std::string& path, const std::vector<std::string>& broken);

}  // namespace trimtab::cli
