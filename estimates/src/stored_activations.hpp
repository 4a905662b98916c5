#pragma once

// What one layer keeps between its forward and its backward pass, and what it needs for a moment. Counted by operator
// for one microbatch on one device, in bytes. docs/estimates.md, section "Memory", names the operators and the sources.
// Pure functions.

#include "estimates/model_shape.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

struct LayerActivations {
  double kept = 0;        // with the plan's recomputation
  double whole = 0;       // without
  double input = 0;       // of the layer alone
  double backward = 0;    // gradients and gathered inputs that live while the layer's backward pass runs
  double hidden = 0;      // one byte for each value of the layer's input
  double row_output = 0;  // an undivided output of a row-parallel product
};

[[nodiscard]] LayerActivations layer_activations(const ModelShape& shape, const UniformPlan& plan);

// Bytes that the head needs at most: its norm, the logits, cross entropy, their gradients and that of its weight.
[[nodiscard]] double head_activations(const ModelShape& shape, const UniformPlan& plan);

// Tokens of one microbatch on one device, before sequence parallelism divides them.
[[nodiscard]] double device_tokens(const ModelShape& shape, const UniformPlan& plan);

}  // namespace trimtab::estimates
