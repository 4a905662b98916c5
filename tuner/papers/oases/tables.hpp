#pragma once

// What an OasesCostModel is built from, and plans of its space. Immutable once built.

#include <optional>
#include <vector>

#include "papers/oases/chain.hpp"
#include "papers/oases_cost_model.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::oases {

struct Tables {
  OasesVariant variant = OasesVariant::kPaper;
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
  Chain chain;
  Terms terms;

  [[nodiscard]] Objective objective() const {
    return variant == OasesVariant::kPaper ? Objective::kPaper : Objective::kPublished;
  }
  // -1 where the degree is not usable.
  [[nodiscard]] std::int32_t index_of(std::int32_t tp) const;
};

// The schedule that this cost model prices.
[[nodiscard]] Schedule overlapped_schedule();

// Runs of equal degree as segments; everything is recomputed.
[[nodiscard]] Plan plan_of(const Tables& tables, const Choice& choice);

// The degree of each operator; nothing where one is not usable (its tp is in `unusable` then).
[[nodiscard]] std::optional<Choice> choice_of(const Tables& tables, const Plan& plan, std::int32_t& unusable);

// "36 x tp 2, 12 x tp 1": runs of operators.
[[nodiscard]] std::string text_of(const Chain& chain, const Choice& choice);

}  // namespace trimtab::tuner::oases
