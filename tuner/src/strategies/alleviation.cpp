#include "alleviation.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::tuner {
namespace {

constexpr int kHops = 5;                              // MaxHops
constexpr std::size_t kBranches = 3;                  // candidates of a hop that the next hop starts from
constexpr std::size_t kSecondary = 2;                 // bottlenecks tried beyond the first
constexpr std::uint64_t kIterationEvaluations = 600;  // one multi-hop search
constexpr int kFruitless = 6;                         // iterations without progress before the end
constexpr std::size_t kUnexplored = 256;

}  // namespace

Scored Alleviation::search(const Candidate& start) {
  Scored best{start, run_.consider(start)};
  visited_.insert(hash_of(start));
  Scored config = best;
  int fruitless = 0;
  while (fruitless < kFruitless && !run_.stopped()) {
    Scored better;
    std::string path;
    iteration_limit_ = run_.evaluator().evaluations() + kIterationEvaluations;
    if (config.score.priced && multi_hop(config, kHops, best.score, better, path)) {
      record(config, better, path);
      config = best = better;
      fruitless = 0;
      continue;
    }
    ++fruitless;
    if (unexplored_.empty()) break;
    config = {unexplored_.begin()->candidate, unexplored_.begin()->score};
    unexplored_.erase(unexplored_.begin());
  }
  return best;
}

bool Alleviation::multi_hop(const Scored& from, int hops_left, const Score& goal, Scored& better, std::string& path) {
  const Load load = load_of(run_.evaluator(), from.candidate);
  const std::size_t tried = hops_left == kHops ? 1 + kSecondary : 1;
  for (std::size_t i = 0; i < std::min(tried, load.ranking.size()); ++i) {
    if (relieve(from, load, load.ranking[i], hops_left, goal, better, path)) return true;
  }
  return false;
}

bool Alleviation::relieve(const Scored& from, const Load& load, std::int32_t stage, int hops_left, const Score& goal,
                          Scored& better, std::string& path) {
  for (const Resource resource : load.resources(stage)) {
    std::vector<Hop> hops = price_moves(eligible_moves(run_.evaluator(), from.candidate, load, stage, resource));
    if (!hops.empty() && hops.front().score.better_than(goal)) {
      better = {hops.front().move.result, hops.front().score};
      path += (path.empty() ? "" : ", ") + move_text(hops.front().move);
      return true;
    }
    for (const Hop& hop : hops) remember_unexplored(hop);
    for (std::size_t i = 0; i < std::min(kBranches, hops.size()) && hops_left > 1; ++i) {
      if (iteration_spent() || !hops[i].score.priced) return false;
      std::string further = path + (path.empty() ? "" : ", ") + move_text(hops[i].move);
      const Scored next{hops[i].move.result, hops[i].score};
      forget_unexplored(next.candidate);
      if (multi_hop(next, hops_left - 1, goal, better, further)) {
        path = std::move(further);
        return true;
      }
    }
  }
  return false;
}

// Priced, without those seen before, the best first.
std::vector<Alleviation::Hop> Alleviation::price_moves(std::vector<Move> moves) {
  std::vector<Hop> hops;
  for (Move& move : moves) {
    if (run_.stopped()) break;
    if (!visited_.insert(hash_of(move.result)).second) continue;
    const Score score = run_.consider(move.result);
    hops.push_back({std::move(move), score});
  }
  std::stable_sort(hops.begin(), hops.end(), [](const Hop& a, const Hop& b) { return a.score.better_than(b.score); });
  return hops;
}

void Alleviation::remember_unexplored(const Hop& hop) {
  if (!hop.score.priced) return;
  unexplored_.insert({hop.score, arrivals_++, hop.move.result});
  if (unexplored_.size() > kUnexplored) unexplored_.erase(std::prev(unexplored_.end()));
}

void Alleviation::forget_unexplored(const Candidate& candidate) {
  const auto found = std::find_if(unexplored_.begin(), unexplored_.end(),
                                  [&candidate](const Unexplored& other) { return other.candidate == candidate; });
  if (found != unexplored_.end()) unexplored_.erase(found);
}

bool Alleviation::iteration_spent() const {
  return run_.evaluator().evaluations() >= iteration_limit_;
}

void Alleviation::record(const Scored& from, const Scored& to, const std::string& path) {
  const Load load = load_of(run_.evaluator(), from.candidate);
  SearchStep step;
  step.evaluations = run_.evaluator().evaluations();
  step.stages = static_cast<std::int32_t>(from.candidate.stages.size());
  step.bottleneck = bottleneck_text(load, load.ranking.front());
  step.primitive = path;
  step.before_ms = from.score.ms;
  step.after_ms = to.score.ms;
  run_.step(std::move(step));
}

}  // namespace trimtab::tuner
