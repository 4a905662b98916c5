#pragma once

// A uniform plan in others' words: the product's plan (schema/plan.hpp), and what a framework is told. Pure: any
// thread.

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "estimates/target.hpp"
#include "schema/gpt_model.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "schema/target.hpp"

namespace trimtab::estimates {

// With the sizes' own sequence.
[[nodiscard]] ModelShape shape_of(const GptSizes& sizes, const std::string& name);

// Fails, naming the knob, where the product's plan cannot say it. `model` is gpt_model() of the plan's shape.
// REQUIRES: check(plan, shape).
[[nodiscard]] Result<Plan> product_plan(const UniformPlan& plan, const Model& model, Target target);

// The inverse: fails where stages, layers or segments differ from each other. What a product's plan does not say has
// the defaults of UniformPlan, as the target runs it.
[[nodiscard]] Result<UniformPlan> uniform_plan(const Plan& plan, const Model& model, Target target);

struct ToldPlan {
  ExportedPlan told;
  std::vector<std::string> remarks;  // what no argument or file says, and whoever runs the plan must do
};

// As the target reads it. Fails, naming the knob, where the target cannot do it.
// REQUIRES: check(plan, shape).
[[nodiscard]] Result<ToldPlan> tell(const UniformPlan& plan, const Model& model, Target target);

// "tp 4 · pp 2 · dp 8 · microbatch 2 · ZeRO-1", for a line. The parts that are 1 or absent are left out.
[[nodiscard]] std::string words_of(const UniformPlan& plan);
[[nodiscard]] std::string sharding_words(const UniformPlan& plan);  // "ZeRO-1", "ZeRO-3 over 8", "-"
[[nodiscard]] std::string recompute_words(const UniformPlan& plan, const ModelShape& shape);  // "10 of 20 layers", "-"

}  // namespace trimtab::estimates
