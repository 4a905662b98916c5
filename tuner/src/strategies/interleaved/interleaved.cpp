// Interleaved plans: equal groups of devices, on each as many stages, of one split. Every plan where there are few;
// else of every count of groups and stages, microbatch and split the plans with even cuts that recompute nothing and
// all, and from the best of these a climb: cuts move, and operators, layers and stages are recomputed or not, until
// nothing is better.

#include <algorithm>
#include <cmath>

#include "plan/recompute_flags.hpp"
#include "solvers/step_graph.hpp"
#include "strategies/candidates.hpp"
#include "strategies/strategy_table.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::size_t kClimbed = 8;      // plans with even cuts
constexpr std::int32_t kMostRounds = 8;  // of a climb: stages on a group of devices
constexpr std::int32_t kSubsetOperators = 12;
constexpr std::ptrdiff_t kSteps[] = {1, 2, 4, 8};  // allowed cuts that a cut moves by

struct Shape {
  std::int32_t seats = 2, stages = 4, microbatch = 1;
  Split split;
};

struct Draft {
  Shape shape;
  std::vector<std::int32_t> ends;  // of stages
  RecomputeFlags recompute;        // by operator
};

struct ScoredDraft {
  Draft draft;
  Score score;
};

class Interleaved {
 public:
  explicit Interleaved(SearchRun& run) : run_(run), space_(run.space()) { list_shapes(); }

  // Of every plan, recompute included.
  [[nodiscard]] double ways() const {
    const auto cuts = static_cast<double>(space_.cuts.size());
    double ways = 0;
    for (const Shape& shape : shapes_) {
      double of_cuts = 1;
      for (std::int32_t i = 0; i < shape.stages - 1 && space_.knobs.uneven_stages; ++i) of_cuts *= (cuts - i) / (i + 1);
      ways += of_cuts;
    }
    return space_.knobs.recompute ? ways * std::pow(2.0, space_.operators) : ways;
  }

  StrategyEnd every_plan() {
    const bool sets = !space_.knobs.recompute || space_.operators <= kSubsetOperators;
    for (const Shape& shape : shapes_) {
      draft_ = {shape, {}, RecomputeFlags(static_cast<std::size_t>(space_.operators), 0)};
      if (space_.knobs.uneven_stages) {
        choose_cuts(0);
      } else {
        draft_.ends = even_ends(run_, shape.stages);
        choose_recompute();
      }
    }
    return {"exhausted", sets && !run_.stopped()};
  }

  StrategyEnd climb() {
    std::vector<ScoredDraft> best;
    for (const Shape& shape : shapes_) {
      if (shape.stages > kMostRounds * shape.seats) continue;
      for (const bool again : {false, true}) {
        if (!again || space_.knobs.recompute)
          best.push_back(price({shape, even_ends(run_, shape.stages), flags(again ? 1 : 0)}));
      }
      if (run_.stopped()) break;
    }
    std::erase_if(best, [](const ScoredDraft& one) { return !one.score.priced; });
    std::ranges::stable_sort(best, [](const auto& a, const auto& b) { return a.score.better_than(b.score); });
    if (best.size() > kClimbed) best.resize(kClimbed);
    for (ScoredDraft& one : best) {
      while (!run_.stopped() && move(one)) {
      }
    }
    return {"converged"};
  }

 private:
  void list_shapes() {
    const auto most = static_cast<std::int32_t>(space_.cuts.size()) + 1;
    for (std::int32_t seats = 2; seats <= space_.devices; ++seats) {
      if (space_.devices % seats != 0) continue;
      for (std::int32_t stages = 2 * seats; stages <= most; stages += seats) {
        for (const std::int32_t microbatch : space_.microbatches) add_shapes(seats, stages, microbatch);
      }
    }
  }

  void add_shapes(std::int32_t seats, std::int32_t stages, std::int32_t microbatch) {
    const std::int32_t microbatches = run_.model().global_batch / microbatch;
    if (microbatches % seats != 0 || std::int64_t{stages} * microbatches > kMostGraphForwards) return;
    for (const Split& split : space_.splits(run_.model(), microbatch, space_.devices / seats)) {
      shapes_.push_back({seats, stages, microbatch, split});
    }
  }

  [[nodiscard]] RecomputeFlags flags(std::uint8_t all) const {
    return RecomputeFlags(static_cast<std::size_t>(space_.operators), all);
  }

  void choose_cuts(std::size_t first_cut) {
    if (run_.stopped()) return;
    const auto chosen = static_cast<std::int32_t>(draft_.ends.size());
    if (chosen + 1 == draft_.shape.stages) {
      draft_.ends.push_back(space_.operators);
      choose_recompute();
      draft_.ends.pop_back();
      return;
    }
    const auto left = static_cast<std::size_t>(draft_.shape.stages - chosen - 2);
    for (std::size_t i = first_cut; i + left < space_.cuts.size(); ++i) {
      draft_.ends.push_back(space_.cuts[i]);
      choose_cuts(i + 1);
      draft_.ends.pop_back();
    }
  }

  void choose_recompute() {
    const std::int32_t operators = space_.knobs.recompute ? std::min(space_.operators, kSubsetOperators) : 0;
    for (std::uint32_t subset = 0; subset < (1U << operators) && !run_.stopped(); ++subset) {
      draft_.recompute = flags(0);
      for (std::int32_t i = 0; i < operators; ++i) draft_.recompute[i] = (subset >> i) & 1U;
      run_.consider(candidate_of(draft_));
    }
  }

  [[nodiscard]] Candidate candidate_of(const Draft& draft) const {
    const Shape& of = draft.shape;
    Candidate candidate = uniform_candidate(of.microbatch, draft.ends, space_.devices / of.seats, of.split);
    candidate.seats = of.seats;
    std::int32_t begin = 0;
    for (CandidateStage& stage : candidate.stages) {
      stage.recompute = ranges_of(draft.recompute, {begin, stage.end});
      begin = stage.end;
    }
    return candidate;
  }

  ScoredDraft price(Draft draft) {
    const Score score = run_.consider(candidate_of(draft));
    return {std::move(draft), score};
  }

  bool take_better(Draft draft, ScoredDraft& best) {
    ScoredDraft other = price(std::move(draft));
    if (!other.score.better_than(best.score)) return false;
    best = std::move(other);
    return true;
  }

  // To the first plans near it that are better, of each kind; false where there is none.
  bool move(ScoredDraft& best) {
    bool better = space_.knobs.uneven_stages && move_cuts(best);
    if (!space_.knobs.recompute) return better;
    std::int32_t begin = 0;
    for (const std::int32_t end : std::vector<std::int32_t>(best.draft.ends)) {
      for (const bool again : {false, true}) better = set({begin, end}, again, best) || better;
      begin = end;
    }
    const std::vector<Operator>& operators = run_.model().operators;
    for (std::int32_t op = 0; op < space_.operators; ++op) {
      std::int32_t end = op + 1;
      better = set({op, end}, best.draft.recompute[op] == 0, best) || better;
      if (op > 0 && operators[op].layer == operators[op - 1].layer) continue;
      while (end < space_.operators && operators[end].layer == operators[op].layer) ++end;
      for (const bool again : {false, true}) better = set({op, end}, again, best) || better;
    }
    return better;
  }

  bool set(const Range& operators, bool again, ScoredDraft& best) {
    Draft draft = best.draft;
    std::fill(draft.recompute.begin() + operators.begin, draft.recompute.begin() + operators.end, again ? 1 : 0);
    return draft.recompute != best.draft.recompute && !run_.stopped() && take_better(std::move(draft), best);
  }

  bool move_cuts(ScoredDraft& best) {
    bool better = false;
    const auto cuts = static_cast<std::ptrdiff_t>(space_.cuts.size());
    for (std::size_t s = 0; s + 1 < best.draft.ends.size(); ++s) {
      for (const std::ptrdiff_t step : kSteps) {
        for (const std::ptrdiff_t by : {step, -step}) {
          const auto at = std::ranges::lower_bound(space_.cuts, best.draft.ends[s]) - space_.cuts.begin() + by;
          if (at < 0 || at >= cuts || run_.stopped()) continue;
          Draft draft = best.draft;
          draft.ends[s] = space_.cuts[static_cast<std::size_t>(at)];
          const bool ordered = draft.ends[s] < draft.ends[s + 1] && (s == 0 || draft.ends[s] > draft.ends[s - 1]);
          better = (ordered && take_better(std::move(draft), best)) || better;
        }
      }
    }
    return better;
  }

  SearchRun& run_;
  const PlanSpace& space_;
  std::vector<Shape> shapes_;
  Draft draft_;  // of every_plan()
};

}  // namespace

StrategyEnd run_interleaved(SearchRun& run) {
  Interleaved search(run);
  const SearchOptions& options = run.options();
  const bool every = options.strategy == "exhaustive" || search.ways() <= options.unified.enumerated_ways;
  return every ? search.every_plan() : search.climb();
}

}  // namespace trimtab::tuner
