#pragma once

// Iterative bottleneck alleviation for one count of stages (Aceso, algorithms 1 and 2): from a candidate, apply the
// primitives that relieve its bottleneck, and primitives on top of those (multi-hop), until something is faster; from
// the best unexplored candidate when nothing is.

#include <cstdint>
#include <set>
#include <unordered_set>
#include <vector>

#include "bottleneck.hpp"
#include "primitives.hpp"
#include "strategy.hpp"

namespace trimtab::tuner {

struct Scored {
  Candidate candidate;
  Score score;
};

class Alleviation {
 public:
  explicit Alleviation(SearchRun& run) : run_(run) {}

  // The best candidate reached from `start`; ends when several unexplored candidates in a row led to nothing better.
  Scored search(const Candidate& start);

 private:
  struct Hop {
    Move move;
    Score score;
  };
  struct Unexplored {
    Score score;
    std::uint64_t order = 0;  // of arrival: ties are broken the same way every time
    Candidate candidate;
    bool operator<(const Unexplored& other) const {
      if (score.better_than(other.score) || other.score.better_than(score)) return score.better_than(other.score);
      return order < other.order;
    }
  };

  // A candidate better than `goal` within the hops that are left, or false. `path` names the primitives taken.
  bool multi_hop(const Scored& from, int hops_left, const Score& goal, Scored& better, std::string& path);
  bool relieve(const Scored& from, const Load& load, std::int32_t stage, int hops_left, const Score& goal,
               Scored& better, std::string& path);
  [[nodiscard]] std::vector<Hop> price_moves(std::vector<Move> moves);
  void remember_unexplored(const Hop& hop);
  void forget_unexplored(const Candidate& candidate);
  [[nodiscard]] bool iteration_spent() const;
  void record(const Scored& from, const Scored& to, const std::string& path);

  SearchRun& run_;
  std::unordered_set<std::uint64_t> visited_;
  std::set<Unexplored> unexplored_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t iteration_limit_ = 0;
};

}  // namespace trimtab::tuner
