#include "plans/plan_rules.hpp"

#include <algorithm>

#include "plans/priced_inputs.hpp"
#include "tuner/validate.hpp"

namespace trimtab::cli {

namespace {

Cluster cluster_of(const Plan& plan) {
  std::int32_t most = 0;
  for (const Stage& stage : plan.stages) {
    for (const std::int32_t device : stage.devices) most = std::max(most, device + 1);
  }
  Cluster cluster;
  cluster.nodes.push_back({"any", "", std::max(most, 1)});
  return cluster;
}

}  // namespace

Status check_rules(const std::string& path, const Plan& plan, const Model& model) {
  const std::vector<std::string> broken = tuner::validate(plan, model, cluster_of(plan));
  if (broken.empty()) return {};
  return bad_input(rules_text(path, broken));
}

}  // namespace trimtab::cli
