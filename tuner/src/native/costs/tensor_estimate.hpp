#pragma once

// What a pass takes on more tensor-parallel ranks than it was measured on: its computing, shared, and its all-reduces,
// whole. Pure.
//
// Of an operator's computing one rank's share is (1 - u) / tp, and u is not divided: norms, dropout and residuals run
// on every rank whole (Korthikanti et al. 2022, section 4.1), and smaller kernels are less efficient. u is 0.05, give
// or take as much: Aceso's published V100 profile of GPT 1.3B to 13B, all-reduces apart, has means of 0.041 at tp 2,
// 0.055 at 4 and 0.062 at 8. Where ranks share sequences, norms and dropout are divided too: 0.02 of the rest of those
// operators. So no estimate is below the measured computing, perfectly shared.

#include "native/costs/curve.hpp"

namespace trimtab::tuner {

inline constexpr double kUndivided = 0.05;
inline constexpr double kUndividedOfSequences = 0.02;

// Computing alone, measured on `from` ranks (1 or more), on `to` ranks of which each has a share: no less than from /
// to of it. REQUIRES: from <= to.
[[nodiscard]] Value shared_computing(const Value& computing, std::int32_t from, std::int32_t to,
                                     double undivided = kUndivided);

// A pass with its all-reduces: `reduces` of them in it, each `reduce`. Where nobody has said how many, `reduces` is
// empty: one is taken, give or take half of it.
[[nodiscard]] Value with_all_reduces(const Value& computing, std::optional<std::int32_t> reduces, const Value& reduce);

// What an update of parameters takes that nobody timed. An update computes little: it reads parameters, gradients and
// states, and writes parameters and states. A fused kernel moves these bytes once, one kernel for each operation about
// three times; two are taken, give or take one. Pure.

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
