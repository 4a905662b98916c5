#pragma once

// The search for one count of stages: alleviation from a start, again from perturbed cuts once it has converged, then
// op-level fine-tuning. Goes on in slices.

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/text_parts.hpp"
#include "plan/candidate.hpp"
#include "search/strategy.hpp"
#include "strategies/aceso/balance.hpp"
#include "strategies/aceso/bottleneck.hpp"
#include "strategies/aceso/polish.hpp"
#include "strategies/aceso/primitives.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner {

// Iterative bottleneck alleviation for one count of stages (Aceso, algorithms 1 and 2): from a candidate, apply the
// primitives that relieve its bottleneck, and primitives on top of those (multi-hop), until something is faster; from
// the best unexplored candidate when nothing is. Goes on in slices, so that counts of stages can share a budget.
class Alleviation {
 public:
  Alleviation(SearchRun& run, std::uint64_t seed) : run_(run), random_(seed) {}

  // Goes on from here; what has been visited stays visited.
  void begin(const Scored& start) {
    best_ = from_ = start;
    fruitless_ = 0;
    converged_ = !start.score.priced;
    visit(start.candidate);
  }
  // Iterates until `evaluations` more are spent (an iteration is ended, not cut) or several iterations in a row led to
  // nothing better.
  void advance(std::uint64_t evaluations) {
    const std::uint64_t end = run_.evaluator().evaluations() + evaluations;
    while (!converged_ && !run_.stopped() && run_.evaluator().evaluations() < end) iterate();
  }

  [[nodiscard]] bool converged() const { return converged_; }
  // The best since begin().
  [[nodiscard]] const Scored& best() const { return best_; }

 private:
  static constexpr std::size_t kBranches = 3;                  // candidates of a hop that the next hop starts from
  static constexpr std::size_t kSecondary = 2;                 // bottlenecks tried beyond the first
  static constexpr std::size_t kRebalanced = 2;                // candidates of a hop whose operators are moved on top
  static constexpr std::uint64_t kIterationEvaluations = 600;  // one multi-hop search
  static constexpr int kFruitless = 6;                         // iterations without progress before the end
  static constexpr std::size_t kUnexplored = 256;
  static bool moves_operators(const Move& move) {
    return move.primitive == AcesoPrimitive::kIncOperators || move.primitive == AcesoPrimitive::kDecOperators ||
           move.primitive == AcesoPrimitive::kIncRecompute || move.primitive == AcesoPrimitive::kDecRecompute;
  }

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

  void iterate() {
    Scored better;
    Path path;
    iteration_limit_ = run_.evaluator().evaluations() + kIterationEvaluations;
    if (multi_hop(from_, run_.options().aceso.max_hops, better, path)) {
      record(from_, better, std::move(path));
      from_ = best_ = std::move(better);
      fruitless_ = 0;
      return;
    }
    record(from_, from_, {});
    converged_ = ++fruitless_ >= kFruitless || unexplored_.empty();
    if (converged_) return;
    from_ = {unexplored_.begin()->candidate, unexplored_.begin()->score};
    unexplored_.erase(unexplored_.begin());
    // A search before this one, of the same count of stages, may have left something better.
    if (from_.score.better_than(best_.score)) best_ = from_;
  }
  // A candidate better than the best within the hops that are left, or false. `path` has the primitives taken.
  bool multi_hop(const Scored& from, int hops_left, Scored& better, Path& path) {
    const Load load = load_of(run_.evaluator(), from.candidate);
    const bool first = hops_left == run_.options().aceso.max_hops;
    const std::size_t tried = std::min(first ? 1 + kSecondary : 1, load.ranking.size());
    for (std::size_t i = 0; i < tried; ++i) {
      if (relieve(from, load, load.ranking[i], hops_left, better, path)) return true;
    }
    const std::int32_t idlest = load.ranking.back();
    const Target offer{from.candidate, load.ranking.front(), load.resources(load.ranking.front()).front()};
    return first && load.ranking.size() > 1 &&
           try_moves(offer, spare_moves(run_.evaluator(), from.candidate, idlest), hops_left, better, path);
  }
  bool relieve(const Scored& from, const Load& load, std::int32_t stage, int hops_left, Scored& better, Path& path) {
    for (const Resource resource : order_of(load, stage)) {
      std::vector<Move> moves = eligible_moves(run_.evaluator(), from.candidate, load, stage, resource);
      if (try_moves({from.candidate, stage, resource}, std::move(moves), hops_left, better, path)) return true;
      if (iteration_spent()) return false;
    }
    return false;
  }
  bool try_moves(const Target& target, std::vector<Move> moves, int hops_left, Scored& better, Path& path) {
    const std::vector<Hop> hops = price_moves(std::move(moves));
    const auto found =
        std::find_if(hops.begin(), hops.end(), [this](const Hop& hop) { return hop.score.better_than(best_.score); });
    if (found != hops.end()) {
      better = {found->move.result, found->score};
      path.push_back(described(target, *found, hops.size()));
      return true;
    }
    for (const Hop& hop : hops) remember_unexplored(hop);
    return hops_left > 1 && go_deeper(target, hops, hops_left, better, path);
  }
  bool go_deeper(const Target& target, const std::vector<Hop>& hops, int hops_left, Scored& better, Path& path) {
    for (std::size_t i = 0; i < std::min(kBranches, hops.size()); ++i) {
      const Hop& hop = hops[i];
      if (iteration_spent() || !hop.score.priced) return false;
      path.push_back(described(target, hop, hops.size()));
      forget_unexplored(hop.move.result);
      if (multi_hop({hop.move.result, hop.score}, hops_left - 1, better, path)) return true;
      path.pop_back();
    }
    return false;
  }
  [[nodiscard]] SearchHop described(const Target& target, const Hop& hop, std::size_t tried) {
    Move move = hop.move;
    attach_recompute(run_.evaluator(), target.from, move);
    return {bottleneck_text(target.stage, target.resource), move_text(move), static_cast<std::int32_t>(tried),
            hop.score.ms, hop.score.excess_bytes};
  }
  // Priced, without those seen before, the best first.
  [[nodiscard]] std::vector<Hop> price_moves(std::vector<Move> moves) {
    std::vector<Hop> hops;
    for (Move& move : moves) {
      if (run_.stopped()) break;
      if (!visit(move.result)) continue;
      const Score score = run_.consider(move.result);
      hops.push_back({std::move(move), score});
    }
    const auto better = [](const Hop& a, const Hop& b) { return a.score.better_than(b.score); };
    std::stable_sort(hops.begin(), hops.end(), better);
    rebalance_first(hops);
    std::stable_sort(hops.begin(), hops.end(), better);
    if (!run_.options().aceso.use_heuristic_2) shuffle(hops);
    return hops;
  }
  // Operators move between all stages on top of the most promising moves of another kind.
  void rebalance_first(std::vector<Hop>& hops) {
    std::vector<Hop> more;
    for (const Hop& hop : hops) {
      if (more.size() >= kRebalanced || run_.stopped()) break;
      if (moves_operators(hop.move)) continue;
      Scored balanced = rebalanced(run_, {hop.move.result, hop.score});
      if (balanced.candidate == hop.move.result || !visit(balanced.candidate)) continue;
      Hop next = hop;
      next.move.rebalanced = true;
      next.move.result = std::move(balanced.candidate);
      next.score = balanced.score;
      more.push_back(std::move(next));
    }
    std::move(more.begin(), more.end(), std::back_inserter(hops));
  }
  [[nodiscard]] std::vector<Resource> order_of(const Load& load, std::int32_t stage) {
    std::vector<Resource> order = load.resources(stage);
    if (!run_.options().aceso.use_heuristic_2) shuffle(order);
    return order;
  }
  template <typename Values>
  void shuffle(Values& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random_.below(i)]);
  }

  bool visit(const Candidate& candidate) { return visited_.insert(semantic_hash_of(run_.model(), candidate)).second; }
  void remember_unexplored(const Hop& hop) {
    if (!hop.score.priced) return;
    if (unexplored_.size() >= kUnexplored && !hop.score.better_than(unexplored_.rbegin()->score)) return;
    unexplored_.insert({hop.score, arrivals_++, hop.move.result});
    if (unexplored_.size() > kUnexplored) unexplored_.erase(std::prev(unexplored_.end()));
  }
  void forget_unexplored(const Candidate& candidate) {
    const auto found = std::find_if(unexplored_.begin(), unexplored_.end(),
                                    [&candidate](const Unexplored& other) { return other.candidate == candidate; });
    if (found != unexplored_.end()) unexplored_.erase(found);
  }
  [[nodiscard]] bool iteration_spent() const { return run_.evaluator().evaluations() >= iteration_limit_; }
  void record(const Scored& from, const Scored& to, Path path) {
    const Load load = load_of(run_.evaluator(), from.candidate);
    SearchStep step = step_of(run_, from.candidate.stages.size(), bottleneck_text(load, load.ranking.front()),
                              joined(path, ", ", &SearchHop::primitive), from.score, to.score);
    step.hops = std::move(path);
    run_.step(std::move(step));
  }

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

class StageCountSearch {
 public:
  StageCountSearch(SearchRun& run, Scored start, std::uint64_t seed)
      : run_(run), random_(seed), alleviation_(run, seed ^ 0x9e3779b97f4a7c15U), best_(std::move(start)) {
    alleviation_.begin(best_);
  }

  void advance(std::uint64_t evaluations) {
    const std::uint64_t begin = run_.evaluator().evaluations();
    const Score before = best_.score;
    alleviation_.advance(evaluations);
    if (alleviation_.best().score.better_than(best_.score)) best_ = alleviation_.best();
    if (alleviation_.converged()) restart();
    ++slices_;
    last_gain_ms_ = before.fits() ? before.ms - best_.score.ms : 0;
    evaluations_ += run_.evaluator().evaluations() - begin;
  }
  // Ends a search that falls so far short of `best_ms` that a few more gains like its last one would not reach it.
  void abandon_unless_promising(double best_ms) {
    if (over_ || slices_ < kPatience || best_ms == std::numeric_limits<double>::infinity()) return;
    const bool promising = best_.score.fits() && best_.score.ms - kFurtherGains * last_gain_ms_ <= best_ms;
    over_ = !promising;
  }

  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const Scored& best() const { return best_; }
  [[nodiscard]] std::uint64_t evaluations() const { return evaluations_; }

 private:
  static constexpr int kRestarts = 2;
  static constexpr int kPatience = 2;         // slices before a search may be abandoned
  static constexpr double kFurtherGains = 3;  // like the last one, that a search is trusted with

  void restart() {
    if (restarts_++ < kRestarts && best_.score.priced) {
      const Candidate other = perturbed(best_.candidate);
      alleviation_.begin({other, run_.consider(other)});
      return;
    }
    Scored tuned = fine_tune(run_, best_);
    if (tuned.score.better_than(best_.score)) best_ = std::move(tuned);
    over_ = true;
  }
  // Some cuts moved at random: another basin.
  [[nodiscard]] Candidate perturbed(const Candidate& from) {
    Candidate candidate = from;
    if (!run_.space().knobs.uneven_stages) return candidate;
    for (std::size_t s = 0; s + 1 < from.stages.size(); ++s) {
      Candidate moved = candidate;
      const auto by = static_cast<std::int32_t>(random_.between(-3, 3));
      if (by != 0 && shift_cut(run_.space(), s, by, moved)) candidate = moved;
    }
    return candidate;
  }

  SearchRun& run_;
  Random random_;
  Alleviation alleviation_;
  Scored best_;
  int restarts_ = 0;
  int slices_ = 0;
  double last_gain_ms_ = 0;
  std::uint64_t evaluations_ = 0;
  bool over_ = false;
};

}  // namespace trimtab::tuner
