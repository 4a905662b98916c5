#pragma once

// Chains for tests: the vectors, random ones, and every choice of a small one.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "papers/oases/chain.hpp"
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

}  // namespace trimtab::tuner::oases::test
