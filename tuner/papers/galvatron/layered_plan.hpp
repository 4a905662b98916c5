#pragma once

// A plan as the galvatron cost models see it: a strategy for each layer; and its price. Plain values.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "papers/galvatron/formulas.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab::tuner::galvatron {

struct StageLayers {
  Range operators;
  std::vector<LayerStrategy> strategies;  // of each operator
};

struct LayeredPlan {
  std::int32_t batch = 1;
  std::int32_t microbatches = 1;
  bool plain_replicas = false;  // replicas keep whole optimizer states
  std::vector<StageLayers> stages;
};

// REQUIRES: equal stages on powers of two of devices in order, whose cost model leaves nothing unpriced.
[[nodiscard]] LayeredPlan layered(const Plan& plan);

// Segments of equal neighbours. Where replicas share optimizer states and gradients, the plan says so. v1 counts
// microbatches in a way of its own; the plan has the whole number of them that is nearest.
[[nodiscard]] Plan plan_of(const LayeredPlan& layers, const Model& model, const Formulas& formulas);

struct StagePart {
  // Sums over the layers; ms of a microbatch, in v1 of a step.
  double forward_ms = 0, backward_ms = 0, recompute_ms = 0, exposed_ms = 0;
  double change_ms = 0;  // layout changes
  StageSum sum;          // layout changes included
  // MiB on each device.
  double states_mib = 0, kept_mib = 0, peak_mib = 0, reserved_mib = 0;

  // Of synchronization, what computing does not hide.
  [[nodiscard]] double sync_ms() const { return std::max(0.0, sum.sync_ms - sum.plain_ms); }
  [[nodiscard]] double memory_mib() const { return states_mib + kept_mib + peak_mib + reserved_mib; }
};

struct LayeredPrice {
  double iteration_ms = 0;
  std::vector<StagePart> stages;
  double withheld_mib = 0;  // of the limit; already in each stage's reserve

  [[nodiscard]] double excess_mib(double limit_mib) const;  // of the fullest stage
};

// REQUIRES: the formulas have every layer's strategy.
[[nodiscard]] LayeredPrice price(const Formulas& formulas, const LayeredPlan& plan);

}  // namespace trimtab::tuner::galvatron
