#pragma once

// The strategy of every layer of one stage, chosen exactly (Galvatron-BMW, equation 4 and Algorithm 3).
//
// The paper sweeps a budget of forward memory upwards and checks the whole of equation 2 for each answer, in steps of a
// MiB. Here layers are prepended from the last to the first. With F the activations, M the states and B the peak of a
// layer, the memory of a chain that begins with it is
//   all = F + max(B + M + M', M + all'),   M' = states of the rest, all' = memory of the rest,
// so a partial choice is a label (time, all', M'), and M' stops to matter as soon as all' exceeds it by the largest
// peak: one dimension in all but the last few layers. Labels that others beat are dropped, and so are those that a
// Lagrangian bound on the layers before shows to be no part of a better answer. Exact on real sizes, no steps.
//
// Pure: plain arrays in, a choice out.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace trimtab::tuner::galvatron {

struct ChainCost {
  double time = 0;
  double kept = 0;    // from its forward pass on
  double states = 0;  // always
  double peak = 0;    // while its backward pass runs, beyond what is kept
};

struct ChainProblem {
  std::int32_t strategies = 0;
  double limit = 0;
  std::vector<std::int32_t> kinds;            // of each layer, from 0
  std::vector<std::vector<ChainCost>> costs;  // by kind and strategy
  // By kind: what its layers wait for another layout of their input, [from * strategies + to]; empty = nothing.
  std::vector<std::vector<double>> changes;
};

struct ChainChoice {
  double time = 0;
  double memory = 0;                     // equation 2
  std::vector<std::int32_t> strategies;  // of each layer
  std::uint64_t labels = 0;              // that were looked at
};

// What ends a chain's search early.
struct ChainLimits {
  std::size_t most_labels = 4'000'000;  // kept at once
  std::function<bool()> stop = {};
};

// Many chains over the same strategies: what of a problem does not depend on its layers is worked out once and kept;
// its `kinds` are not looked at. Not thread-safe: it keeps its working memory.
class ChainProgram {
 public:
  explicit ChainProgram(const ChainProblem& problem, ChainLimits limits = {});
  ~ChainProgram();
  ChainProgram(ChainProgram&&) noexcept;
  ChainProgram& operator=(ChainProgram&&) noexcept;

  // The choice for layers of these kinds that takes the least time and fits; nothing where none does. Times closer than
  // 1e-12 of each other count as equal.
  [[nodiscard]] std::optional<ChainChoice> solve(std::span<const std::int32_t> kinds);
  // Whether the latest answer was cut short by the limits: then it is a choice that fits, or nothing, and no more.
  [[nodiscard]] bool cut_short() const;

 private:
  class Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace trimtab::tuner::galvatron
