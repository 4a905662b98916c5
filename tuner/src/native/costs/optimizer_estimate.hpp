#pragma once

// What an update of parameters takes that nobody timed. An update computes little: it reads parameters, gradients and
// states, and writes parameters and states. A fused kernel moves these bytes once, one kernel for each operation about
// three times; two are taken, give or take one. Pure.

#include <cstdint>
#include <string>

#include "native/costs/curve.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner {

// What is known of the device; 0 = unknown.
struct UpdatePace {
  double ms_per_byte = 0;  // of parameters, as other operators' updates were measured
  double ms_per_flop = 0;  // of the measured operators' passes
};

// Of an operator's whole parameters on one rank; ms. By other operators' updates; else at the memory bandwidth that
// goes with the pace of passes: devices compute about 120 flops in the time in which they move one byte in half
// precision, 20 in single (what programs reach on V100, A100, H100, RTX TITAN and processors; within a factor of two);
// else as long as its forward pass of one sample, give or take as much, `forward_ms`. Missing where all are unknown.
[[nodiscard]] Value estimated_update(const Model& model, const Operator& op, const UpdatePace& pace, double forward_ms);

}  // namespace trimtab::tuner
