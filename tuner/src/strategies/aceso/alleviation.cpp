#include "strategies/aceso/alleviation.hpp"

#include <algorithm>
#include <utility>

#include "plan/canonical.hpp"
#include "strategies/aceso/balance.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kBranches = 3;                  // candidates of a hop that the next hop starts from
constexpr std::size_t kSecondary = 2;                 // bottlenecks tried beyond the first
constexpr std::size_t kRebalanced = 2;                // candidates of a hop whose operators are moved on top
constexpr std::uint64_t kIterationEvaluations = 600;  // one multi-hop search
constexpr int kFruitless = 6;                         // iterations without progress before the end
constexpr std::size_t kUnexplored = 256;

bool moves_operators(const Move& move) {
  switch (move.primitive) {
    case Primitive::kIncOperators:
    case Primitive::kDecOperators:
    case Primitive::kIncRecompute:
    case Primitive::kDecRecompute:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Alleviation::begin(const Scored& start) {
  best_ = from_ = start;
  fruitless_ = 0;
  converged_ = !start.score.priced;
  visit(start.candidate);
}

void Alleviation::advance(std::uint64_t evaluations) {
  const std::uint64_t end = run_.evaluator().evaluations() + evaluations;
  while (!converged_ && !run_.stopped() && run_.evaluator().evaluations() < end) iterate();
}

void Alleviation::iterate() {
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

bool Alleviation::multi_hop(const Scored& from, int hops_left, Scored& better, Path& path) {
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

bool Alleviation::relieve(const Scored& from, const Load& load, std::int32_t stage, int hops_left, Scored& better,
                          Path& path) {
  for (const Resource resource : order_of(load, stage)) {
    std::vector<Move> moves = eligible_moves(run_.evaluator(), from.candidate, load, stage, resource);
    if (try_moves({from.candidate, stage, resource}, std::move(moves), hops_left, better, path)) return true;
    if (iteration_spent()) return false;
  }
  return false;
}

bool Alleviation::try_moves(const Target& target, std::vector<Move> moves, int hops_left, Scored& better, Path& path) {
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

bool Alleviation::go_deeper(const Target& target, const std::vector<Hop>& hops, int hops_left, Scored& better,
                            Path& path) {
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

SearchHop Alleviation::described(const Target& target, const Hop& hop, std::size_t tried) {
  Move move = hop.move;
  attach_recompute(run_.evaluator(), target.from, move);
  return {bottleneck_text(target.stage, target.resource), move_text(move), static_cast<std::int32_t>(tried),
          hop.score.ms, hop.score.excess_bytes};
}

// Priced, without those seen before, the best first.
std::vector<Alleviation::Hop> Alleviation::price_moves(std::vector<Move> moves) {
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
void Alleviation::rebalance_first(std::vector<Hop>& hops) {
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

std::vector<Resource> Alleviation::order_of(const Load& load, std::int32_t stage) {
  std::vector<Resource> order = load.resources(stage);
  if (!run_.options().aceso.use_heuristic_2) shuffle(order);
  return order;
}

template <typename Values>
void Alleviation::shuffle(Values& values) {
  for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random_.below(i)]);
}

bool Alleviation::visit(const Candidate& candidate) {
  return visited_.insert(semantic_hash_of(run_.model(), candidate)).second;
}

void Alleviation::remember_unexplored(const Hop& hop) {
  if (!hop.score.priced) return;
  if (unexplored_.size() >= kUnexplored && !hop.score.better_than(unexplored_.rbegin()->score)) return;
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

void Alleviation::record(const Scored& from, const Scored& to, Path path) {
  const Load load = load_of(run_.evaluator(), from.candidate);
  SearchStep step;
  step.evaluations = run_.evaluator().evaluations();
  step.stages = static_cast<std::int32_t>(from.candidate.stages.size());
  step.bottleneck = bottleneck_text(load, load.ranking.front());
  for (const SearchHop& hop : path) step.primitive += (step.primitive.empty() ? "" : ", ") + hop.primitive;
  step.before_ms = from.score.ms;
  step.after_ms = to.score.ms;
  step.before_excess_bytes = from.score.excess_bytes;
  step.after_excess_bytes = to.score.excess_bytes;
  step.hops = std::move(path);
  run_.step(std::move(step));
}

}  // namespace trimtab::tuner
