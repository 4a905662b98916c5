#pragma once

// Iterative bottleneck alleviation for one count of stages (Aceso, algorithms 1 and 2): from a candidate, apply the
// primitives that relieve its bottleneck, and primitives on top of those (multi-hop), until something is faster; from
// the best unexplored candidate when nothing is. Goes on in slices, so that counts of stages can share a budget.

#include <cstdint>
#include <set>
#include <unordered_set>
#include <vector>

#include "base/random.hpp"
#include "search/strategy.hpp"
#include "strategies/aceso/bottleneck.hpp"
#include "strategies/aceso/primitives.hpp"

namespace trimtab::tuner {

class Alleviation {
 public:
  Alleviation(SearchRun& run, std::uint64_t seed) : run_(run), random_(seed) {}

  // Goes on from here; what has been visited stays visited.
  void begin(const Scored& start);
  // Iterates until `evaluations` more are spent (an iteration is ended, not cut) or several iterations in a row led to
  // nothing better.
  void advance(std::uint64_t evaluations);

  [[nodiscard]] bool converged() const { return converged_; }
  // The best since begin().
  [[nodiscard]] const Scored& best() const { return best_; }

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
  // What one hop tries to relieve.
  struct Target {
    const Candidate& from;
    std::int32_t stage = 0;
    Resource resource = Resource::kComputation;
  };
  using Path = std::vector<SearchHop>;

  void iterate();
  // A candidate better than the best within the hops that are left, or false. `path` has the primitives taken.
  bool multi_hop(const Scored& from, int hops_left, Scored& better, Path& path);
  bool relieve(const Scored& from, const Load& load, std::int32_t stage, int hops_left, Scored& better, Path& path);
  bool try_moves(const Target& target, std::vector<Move> moves, int hops_left, Scored& better, Path& path);
  bool go_deeper(const Target& target, const std::vector<Hop>& hops, int hops_left, Scored& better, Path& path);
  [[nodiscard]] SearchHop described(const Target& target, const Hop& hop, std::size_t tried);
  [[nodiscard]] std::vector<Hop> price_moves(std::vector<Move> moves);
  void rebalance_first(std::vector<Hop>& hops);
  [[nodiscard]] std::vector<Resource> order_of(const Load& load, std::int32_t stage);
  template <typename Values>
  void shuffle(Values& values);

  bool visit(const Candidate& candidate);
  void remember_unexplored(const Hop& hop);
  void forget_unexplored(const Candidate& candidate);
  [[nodiscard]] bool iteration_spent() const;
  void record(const Scored& from, const Scored& to, Path path);

  SearchRun& run_;
  Random random_;
  Scored best_;
  Scored from_;  // where the next iteration starts
  int fruitless_ = 0;
  bool converged_ = false;
  std::unordered_set<std::uint64_t> visited_;
  std::set<Unexplored> unexplored_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t iteration_limit_ = 0;
};

}  // namespace trimtab::tuner
