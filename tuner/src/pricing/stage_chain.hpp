#pragma once

// One stage over all devices of a space as a chain of operators, each split in one of a few ways.

#include "plan/plan_space.hpp"

namespace trimtab::tuner {

class Evaluator;

struct StageChain {
  std::vector<Split> splits;   // options; empty where the stage has no price
  std::vector<double> node;    // [operator][option], ms of a step
  std::vector<double> edge;    // [operator][option][option of the next operator], ms; operators - 1 of them
  std::vector<double> memory;  // [operator][option], bytes
  std::vector<double> buffer;  // by the last operator's option, bytes
  double limit = 0;            // bytes, of memory and buffer
  // The sums are the price and the memory of the plan. Else they leave out communication between operators, and what is
  // kept for the backward pass: memory is states alone, limit is infinite.
  bool exact = false;
};

class StageChains {
 public:
  virtual ~StageChains() = default;
  // REQUIRES: the space has the microbatch.
  virtual StageChain stage_chain(std::int32_t microbatch) = 0;
};

// For models that have no such: from what each operator computes; not exact.
[[nodiscard]] StageChain computing_chain(Evaluator& evaluator, std::int32_t microbatch);

}  // namespace trimtab::tuner
