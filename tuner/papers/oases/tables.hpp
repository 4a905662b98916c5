#pragma once

// Oases' problem as dense arrays: a chain of blocks, each of which takes one of a few tensor-parallel degrees (Oases,
// section V; notation: d forward, q backward, c communication, w = d + q recompute and backward); what an
// OasesCostModel is built from, and plans of its space. Plain values.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "papers/oases_cost_model.hpp"
#include "schema/cluster.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "solvers/sub_batch_schedule.hpp"

namespace trimtab::tuner::oases {

using Doubles = std::vector<double>;
using Choice = std::vector<std::int32_t>;  // index into the degrees, by node

struct Chain {
  std::vector<std::int32_t> degrees;  // ascending
  std::int32_t nodes = 0;
  // [node][degree]; ms of one sub-batch.
  Doubles forward, backward, communication;
  Doubles memory;                 // [node][degree], bytes: states and what is kept for recompute
  Doubles buffer;                 // by the last node's degree, bytes
  double limit = 0;               // bytes
  OverlapSlowdown slowdown = {};  // of computing and communicating at once

  [[nodiscard]] std::int32_t options() const { return static_cast<std::int32_t>(degrees.size()); }
  [[nodiscard]] std::size_t at(std::int32_t node, std::int32_t degree) const {
    return static_cast<std::size_t>(node) * degrees.size() + static_cast<std::size_t>(degree);
  }
  [[nodiscard]] double ratio(std::int32_t larger, std::int32_t smaller) const {
    return static_cast<double>(degrees[larger]) / degrees[smaller];
  }
};

// What a choice takes in ms: equations (3) to (5), or what the published planner's program counts instead.
using Objective = OasesVariant;

// The chain of a choice as blocks of the overlapped schedule: everything recomputed after communications, all-gathers
// where the degree changes (equation 4: before the larger degree's forward pass, before the smaller one's backward).
[[nodiscard]] std::vector<Block> blocks_of(const Chain& chain, const Choice& choice);

// One step. By kPaper this is rounds_time() of the forward and the backward pass over those blocks.
[[nodiscard]] double step_ms(const Chain& chain, const Choice& choice, Objective objective);
// Equation (6), left side.
[[nodiscard]] double memory_bytes(const Chain& chain, const Choice& choice);

// An objective as sums over nodes and neighbours.
struct Terms {
  Doubles node;  // [node][degree]
  Doubles edge;  // [node][degree][degree of the next node]; nodes - 1 of them
};
[[nodiscard]] Terms terms_of(const Chain& chain, Objective objective);

// Of a model on a cluster from measured costs (profile.cpp). Each operator is a block: half a transformer layer that
// ends in one all-reduce of its output, forward and backward, where its kind is "attention" or "mlp"; other kinds only
// compute. A degree t of G devices computes global_batch t / G samples at once, in two halves. It is usable where that
// is an even number, the forward and backward time of every operator and its all-reduce are measured for one half, and
// the last operator's working memory for both. Slowdowns of overlap are the largest that were measured among the usable
// degrees' groups; without any, none. Fails where no degree is usable, naming what is missing.
[[nodiscard]] Result<Chain> chain_from_costs(const Model& model, const Cluster& cluster,
                                             const std::vector<Cost>& costs);

struct Tables {
  OasesVariant variant = OasesVariant::kPaper;
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
  Chain chain;
  Terms terms;

  // -1 where the degree is not usable.
  [[nodiscard]] std::int32_t index_of(std::int32_t tp) const;
};

// The schedule that this cost model prices.
[[nodiscard]] Schedule overlapped_schedule();

// Runs of equal degree as segments; everything is recomputed.
[[nodiscard]] Plan plan_of(const Tables& tables, const Choice& choice);

// The degree of each operator; nothing where one is not usable (its tp is in `unusable` then).
[[nodiscard]] std::optional<Choice> choice_of(const Tables& tables, const Plan& plan, std::int32_t& unusable);

}  // namespace trimtab::tuner::oases
