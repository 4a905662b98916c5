#pragma once

// Which targets run a plan as it is. Pure.

#include <string>
#include <vector>

#include "base/result.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

struct TargetAnswer {
  std::string target;
  std::vector<std::string> complaints;  // what the plan sets and the target cannot do; empty = it runs all of it
};

// Of every target. REQUIRES: the plan fits the model. Where no target can count the model's layers, each says why.
[[nodiscard]] std::vector<TargetAnswer> answers_of_targets(const Plan& plan, const Model& model);

// "Honoured by trainer, megatron." and a line for each other target with its first complaint.
[[nodiscard]] std::string describe(const std::vector<TargetAnswer>& answers);

}  // namespace trimtab::cli
