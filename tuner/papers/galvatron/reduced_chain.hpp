#pragma once

// A chain problem without the strategies that another one replaces everywhere at no more time and memory.

#include <cstdint>
#include <vector>

#include "papers/galvatron/chain_program.hpp"

namespace trimtab::tuner::galvatron {

class ReducedChain {
 public:
  // Borrows the problem.
  explicit ReducedChain(const ChainProblem& problem);

  [[nodiscard]] std::int32_t count() const { return static_cast<std::int32_t>(kept_.size()); }
  // The problem's number of a strategy that is left.
  [[nodiscard]] std::int32_t original(std::int32_t s) const { return kept_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] const ChainCost& cost(std::int32_t kind, std::int32_t s) const {
    return problem_.costs[static_cast<std::size_t>(kind)][static_cast<std::size_t>(original(s))];
  }
  [[nodiscard]] bool changes(std::int32_t kind) const {
    return !problem_.changes.empty() && !problem_.changes[static_cast<std::size_t>(kind)].empty();
  }
  // What a layer of `kind` on `to` waits for the output of one on `from`.
  [[nodiscard]] double change(std::int32_t kind, std::int32_t from, std::int32_t to) const {
    return changes(kind) ? raw(kind, original(from), original(to)) : 0;
  }

 private:
  [[nodiscard]] double raw(std::int32_t kind, std::int32_t from, std::int32_t to) const {
    return problem_.changes[static_cast<std::size_t>(kind)][static_cast<std::size_t>(from) * problem_.strategies + to];
  }
  [[nodiscard]] bool usable(std::int32_t s) const;
  [[nodiscard]] double detour(std::int32_t s, std::int32_t by) const;
  [[nodiscard]] bool beats(std::int32_t by, std::int32_t s) const;
  [[nodiscard]] bool beaten(std::int32_t s) const;

  const ChainProblem& problem_;
  std::vector<std::int32_t> kept_;
};

}  // namespace trimtab::tuner::galvatron
