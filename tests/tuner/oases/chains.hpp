#pragma once

// Chains for tests: the vectors, random ones, and every choice of a small one.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "papers/oases/tables.hpp"
#include "solvers/label_setting.hpp"

namespace trimtab::tuner::oases::test {

struct Vector {
  Chain chain;
  double optimum[2];  // by Objective
  Choice argmin[2];
  double memory[2];
};
[[nodiscard]] std::vector<Vector> vectors();

struct RandomShape {
  std::int32_t nodes = 8, degrees = 3;
  bool whole = true;    // numbers; else any
  bool uneven = false;  // nodes of many sizes; else like layers of a model
};
// Larger degrees compute less, communicate more and need less memory. Its limit cuts off some choices, seldom all.
[[nodiscard]] Chain random_chain(Random& random, const RandomShape& shape);

[[nodiscard]] ChainAnswer solve(const Chain& chain, Objective objective, std::int32_t most_options = 0);

// At most so many degrees, each on nodes in a row; 0 = any choice.
[[nodiscard]] bool allowed(const Choice& choice, std::int32_t most_options);
// The least cost of any choice that fits; nothing where none does. Small chains only.
[[nodiscard]] std::optional<double> enumerated(const Chain& chain, Objective objective, std::int32_t most_options = 0);

// What the published planner runs of its program's answer: the two degrees that most nodes have; the smaller one on as
// many whole layers (two nodes) as it fills, in front, the larger on the rest. Its memory is not checked again.
[[nodiscard]] Choice deployed(const Chain& chain, const Choice& choice);

}  // namespace trimtab::tuner::oases::test
