#pragma once

// What the layers of a stage take at best, for one pipeline degree, size and count of microbatches: exact, on demand,
// once for all stages and ranges that are alike. A stage has two times, the plain one of every microbatch and what
// synchronizing gradients adds to the last one; which of its choices is best depends on how much each of them weighs.
// One per search; not thread-safe.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "papers/galvatron/chain_program.hpp"
#include "papers/galvatron/cut_program.hpp"
#include "papers/galvatron/formulas.hpp"
#include "papers/galvatron/layer_ranges.hpp"

namespace trimtab::tuner::galvatron {

// What a range of layers takes at least within a memory limit: the Lagrangian dual of choosing what each layer does by
// itself, which is exact but for the rounding of one layer. Plain arrays.
class RangeFloor {
 public:
  struct Choice {
    double time = 0;
    double memory = 0;
  };

  explicit RangeFloor(double limit) : limit_(limit) {}
  // The choices of the next kind of layer; none = there is none, and no range with such a layer can be.
  // Keeps the lower left hull: each further choice is quicker, by less and less for its memory.
  void add_kind(std::vector<Choice> choices) {
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return a.memory != b.memory ? a.memory < b.memory : a.time < b.time;
    });
    std::vector<Choice>& hull = hulls_.emplace_back();
    for (const Choice& choice : choices) {
      if (!hull.empty() && choice.time >= hull.back().time) continue;
      while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) <= slope(hull.back(), choice))
        hull.pop_back();
      hull.push_back(choice);
    }
  }
  // REQUIRES: after the last kind.
  void settle() {
    multipliers_.assign(1, 0);
    for (const std::vector<Choice>& hull : hulls_) {
      for (std::size_t i = 1; i < hull.size(); ++i) multipliers_.push_back(slope(hull[i - 1], hull[i]));
    }
    std::sort(multipliers_.begin(), multipliers_.end());
    multipliers_.erase(std::unique(multipliers_.begin(), multipliers_.end()), multipliers_.end());
    for (const double multiplier : multipliers_) {
      for (const std::vector<Choice>& hull : hulls_) {
        double least = kInfinite;
        for (const Choice& choice : hull) least = std::min(least, choice.time + multiplier * choice.memory);
        priced_.push_back(least);
      }
    }
  }
  [[nodiscard]] double least(const LayerRanges& ranges, std::int32_t number) const {
    const auto kinds = static_cast<std::int32_t>(hulls_.size());
    double leanest = 0;
    for (std::int32_t kind = 0; kind < kinds; ++kind) {
      const std::int32_t layers = ranges.layers_of(number, kind);
      const std::vector<Choice>& hull = hulls_[static_cast<std::size_t>(kind)];
      if (layers == 0) continue;
      if (hull.empty()) return kInfinite;
      leanest += layers * hull.front().memory;
    }
    if (leanest > limit_) return kInfinite;
    double most = 0;
    for (std::size_t m = 0; m < multipliers_.size(); ++m) {
      const double price_of_limit = multipliers_[m] * limit_;
      double least = -price_of_limit;
      for (std::int32_t kind = 0; kind < kinds; ++kind) {
        const std::int32_t layers = ranges.layers_of(number, kind);
        if (layers > 0) least += layers * priced_[m * static_cast<std::size_t>(kinds) + static_cast<std::size_t>(kind)];
      }
      most = std::max(most, least - kRounding * (least + price_of_limit));
    }
    return most;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kRounding = 1e-13;  // of sums that nearly cancel
  // Ms that a unit of memory saves from one choice to a fuller one.
  static double slope(const Choice& lean, const Choice& full) {
    return (lean.time - full.time) / (full.memory - lean.memory);
  }

  double limit_;
  std::vector<std::vector<Choice>> hulls_;  // by kind, the leanest choice first
  std::vector<double> multipliers_;         // where a kind changes its choice
  std::vector<double> priced_;              // [multiplier * kinds + kind]
};

// What the layers of a table may do.
struct TableSpace {
  std::vector<LayerStrategy> strategies;  // priced for some type
  bool plain_replicas = false;
  bool mixed = true;  // layers of a stage may be split in different ways
};

struct StagePoint {
  std::vector<std::int32_t> strategies;  // of each layer
  StageSum sum;
  double memory_mib = 0;  // without what the stage reserves
};

// What plain time and synchronization take together at their weights: share 0 is the plain time, 1 synchronization
// alone, a half one of each, halved.
[[nodiscard]] inline double weighed(const StageSum& sum, double sync_share) {
  return (1 - sync_share) * sum.plain_ms + sync_share * (sum.sync_ms - sum.plain_ms);
}

class StageTable {
 public:
  // Borrows all of them.
  StageTable(const Formulas& formulas, const TableSpace& space, const LayerRanges& ranges, const Situation& first_stage)
      : formulas_(formulas), space_(space), ranges_(ranges) {
    for (const LayerStrategy& strategy : space.strategies) recompute_ = recompute_ || strategy.recompute;
    Situation at = first_stage;
    for (; at.stage < at.stages; ++at.stage) {
      StageClass of = class_at(at);
      const auto same = std::find_if(classes_.begin(), classes_.end(), [&of](const StageClass& other) {
        return other.reserved == of.reserved && other.recompute_reserve == of.recompute_reserve &&
               std::equal(other.costs.begin(), other.costs.end(), of.costs.begin(), [](const auto& a, const auto& b) {
                 return std::equal(a.begin(), a.end(), b.begin(), alike);
               });
      });
      class_of_.push_back(static_cast<std::int32_t>(same - classes_.begin()));
      if (same == classes_.end()) classes_.push_back(std::move(of));
    }
    known_.resize(slots());
    at.stage = 0;
    if (formulas.variant() == Variant::kV2) return;  // changes cost nothing
    for (std::size_t type = 0; type < formulas.profile().types.size(); ++type) {
      auto& of = changes_.emplace_back();
      for (const LayerStrategy& from : space.strategies) {
        for (const LayerStrategy& to : space.strategies) {
          of.push_back(formulas.layout_change_ms(static_cast<std::int32_t>(type), from, to, at));
        }
      }
      if (std::all_of(of.begin(), of.end(), [](double ms) { return ms == 0; })) of.clear();
    }
  }

  [[nodiscard]] const LayerRanges& ranges() const { return ranges_; }
  [[nodiscard]] const TableSpace& space() const { return space_; }
  // Rows of ranges.count() slots; stages that are alike share one.
  [[nodiscard]] std::size_t row_of(std::int32_t stage) const {
    return static_cast<std::size_t>(class_of_[static_cast<std::size_t>(stage)]) *
           static_cast<std::size_t>(ranges_.count());
  }
  [[nodiscard]] std::size_t slots() const { return classes_.size() * static_cast<std::size_t>(ranges_.count()); }
  [[nodiscard]] std::size_t slot(std::int32_t stage, std::int32_t begin, std::int32_t end) const {
    return row_of(stage) + static_cast<std::size_t>(ranges_.number(begin, end));
  }

  // Asked while a stage is chosen; true ends that with the best so far.
  void stop_when(std::function<bool()> stop) { stop_ = std::move(stop); }
  // Whether some choice was, or had more labels than there is memory for: what least() and within() answer may be
  // beaten, and no bound comes of it. values() remain bounds.
  [[nodiscard]] bool cut_short() const { return cut_short_; }
  // The choice of least weighed() time; null where none fits. REQUIRES: 0 <= sync_share <= 1.
  const StagePoint* least(std::size_t slot, double sync_share) {
    if (!known_[slot]) known_[slot] = std::make_unique<Known>();
    Known& known = *known_[slot];
    if (known.never) return nullptr;
    if (const StagePoint* const point = recall(known, sync_share)) return point;
    std::optional<StagePoint> solved = solve(slot, sync_share);
    // Something fits, but it was not found again.
    if (!solved && !known.points.empty()) return known.points.back().get();
    if (!solved) {
      known.never = true;
      return nullptr;
    }
    const Solved entry{sync_share, weighed(solved->sum, sync_share), known.points.size()};
    known.points.push_back(std::make_unique<StagePoint>(std::move(*solved)));
    const auto at = std::upper_bound(known.solved.begin(), known.solved.end(), sync_share,
                                     [](double share, const Solved& one) { return share < one.sync_share; });
    known.solved.insert(at, entry);
    return known.points.back().get();
  }
  // What that is for every slot as far as it is known, from below: layout changes and recompute peaks are left out.
  // refine() makes one value exact; infinite where none fits.
  CutValues& values(double sync_share) {
    const auto [at, fresh] = values_.try_emplace(sync_share);
    if (fresh) at->second = {floors(sync_share), std::vector<char>(slots(), 0)};
    return at->second;
  }
  void refine(CutValues& values, std::size_t slot, double sync_share) {
    const StagePoint* const point = least(slot, sync_share);
    if (cut_short_) return;
    values.least[slot] = point == nullptr ? kInfinite : weighed(point->sum, sync_share);
  }

  // The least weighed() time of choices whose plain time is at most `plain_ms`.
  struct Within {
    double least = 0;                   // none takes less; infinite where none is so quick
    const StagePoint* point = nullptr;  // the best that is known
  };
  // Along the lower hull of the two times, from its ends to the edge that crosses `plain_ms`.
  Within within(std::size_t slot, double plain_ms, double sync_share) {
    const StagePoint* slow = least(slot, sync_share);
    if (slow == nullptr) return {kInfinite, nullptr};
    if (slow->sum.plain_ms <= plain_ms) return {weighed(slow->sum, sync_share), slow};
    const StagePoint* quick = least(slot, 0);
    if (quick->sum.plain_ms > plain_ms) return {kInfinite, nullptr};
    while (true) {
      const double gained = weighed(quick->sum, sync_share) - weighed(slow->sum, sync_share);
      if (gained <= 0) return {weighed(quick->sum, sync_share), quick};  // as good as the slow one, and quick enough
      const double slower = slow->sum.plain_ms - quick->sum.plain_ms;
      const double less = quick->sum.sync_ms - quick->sum.plain_ms - (slow->sum.sync_ms - slow->sum.plain_ms);
      const double share = slower / (slower + less);
      const StagePoint* const middle = least(slot, share);
      const bool corner = middle != quick && middle != slow;
      if (!corner || weighed(middle->sum, share) >= weighed(quick->sum, share) * (1 - kEqual)) {
        return {weighed(quick->sum, sync_share) - gained * (plain_ms - quick->sum.plain_ms) / slower, quick};
      }
      (middle->sum.plain_ms <= plain_ms ? quick : slow) = middle;
    }
  }

  // Infinite times where the formulas do not price the strategy.
  [[nodiscard]] const LayerCost& cost(std::int32_t stage, std::int32_t type, std::int32_t strategy) const {
    const StageClass& of = classes_[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(stage)])];
    return of.costs[static_cast<std::size_t>(type)][static_cast<std::size_t>(strategy)];
  }
  [[nodiscard]] double reserved_mib(std::int32_t stage) const {
    return classes_[static_cast<std::size_t>(class_of_[static_cast<std::size_t>(stage)])].reserved;
  }
  // The strategy that a layer of the type needs least memory under, on the first stage.
  [[nodiscard]] std::int32_t leanest(std::int32_t type) const {
    const std::vector<LayerCost>& costs = classes_.front().costs[static_cast<std::size_t>(type)];
    const auto least = std::min_element(costs.begin(), costs.end(), [](const LayerCost& a, const LayerCost& b) {
      if ((a.plain_ms < kInfinite) != (b.plain_ms < kInfinite)) return a.plain_ms < kInfinite;
      return a.kept_mib + a.states_mib < b.kept_mib + b.states_mib;
    });
    return static_cast<std::int32_t>(least - costs.begin());
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kRoundingMib = 1e-6;
  static constexpr double kEqual = 1e-12;
  static bool alike(const LayerCost& a, const LayerCost& b) {
    return a.plain_ms == b.plain_ms && a.sync_ms == b.sync_ms && a.kept_mib == b.kept_mib &&
           a.states_mib == b.states_mib && a.peak_mib == b.peak_mib;
  }

  // Stages whose layers cost the same and may hold the same.
  struct StageClass {
    std::vector<std::vector<LayerCost>> costs;  // by type and strategy
    double reserved = 0;
    double recompute_reserve = 0;
  };
  // The layer programs of a class and a weight, the best of which counts: whether a stage recomputes at all, and how it
  // is split, may be cases of their own.
  using Programs = std::vector<ChainProgram>;
  struct Solved {
    double sync_share = 0;
    double value = 0;
    std::size_t point = 0;
  };
  // What is known of a slot.
  struct Known {
    bool never = false;
    std::vector<Solved> solved;  // ascending by weight
    std::vector<std::unique_ptr<StagePoint>> points;
  };

  [[nodiscard]] StageClass class_at(const Situation& at) const {
    StageClass of;
    of.reserved = formulas_.reserved_mib(at, space_.plain_replicas);
    of.recompute_reserve = recompute_ ? formulas_.recompute_reserve_mib(at) : 0;
    of.costs.resize(formulas_.profile().types.size());
    for (std::size_t type = 0; type < of.costs.size(); ++type) {
      const auto number = static_cast<std::int32_t>(type);
      for (const LayerStrategy& strategy : space_.strategies) {
        LayerCost& cost = of.costs[type].emplace_back();
        cost.plain_ms = cost.sync_ms = kInfinite;
        if (!formulas_.has(number, strategy, at.stages)) continue;
        cost = formulas_.layer(number, strategy, at, space_.plain_replicas);
        if (formulas_.variant() == Variant::kPaper) continue;
        // Whole MiB: sums must not differ by what dividing them has rounded.
        cost.kept_mib = std::round(cost.kept_mib + cost.states_mib);
        cost.states_mib = 0;
      }
    }
    return of;
  }
  [[nodiscard]] std::vector<double> floors(double sync_share) const {
    std::vector<double> floors;
    floors.reserve(slots());
    for (const StageClass& of : classes_) {
      RangeFloor floor(formulas_.limit_mib() - of.reserved + kRoundingMib);
      for (const std::vector<LayerCost>& costs : of.costs) {
        std::vector<RangeFloor::Choice> choices;
        for (const LayerCost& cost : costs) {
          if (cost.plain_ms == kInfinite) continue;
          choices.push_back({weighed({cost.plain_ms, cost.sync_ms}, sync_share), cost.kept_mib + cost.states_mib});
        }
        floor.add_kind(std::move(choices));
      }
      floor.settle();
      for (std::int32_t number = 0; number < ranges_.count(); ++number) floors.push_back(floor.least(ranges_, number));
    }
    return floors;
  }
  [[nodiscard]] ChainProblem problem_of(const StageClass& of, double sync_share) const {
    ChainProblem problem;
    problem.strategies = static_cast<std::int32_t>(space_.strategies.size());
    problem.limit = formulas_.limit_mib() - of.reserved + kRoundingMib;
    for (const std::vector<LayerCost>& costs : of.costs) {
      std::vector<ChainCost>& kind = problem.costs.emplace_back();
      for (const LayerCost& cost : costs) {
        const bool priced = cost.plain_ms < kInfinite;
        const double time = priced ? weighed({cost.plain_ms, cost.sync_ms}, sync_share) : kInfinite;
        kind.push_back({time, cost.kept_mib, cost.states_mib, cost.peak_mib});
      }
    }
    problem.changes = changes_;
    for (std::vector<double>& between : problem.changes) {
      for (double& ms : between) ms *= 1 - sync_share;
    }
    return problem;
  }
  Programs& programs(std::size_t stage_class, double sync_share) {
    const auto [at, fresh] = programs_.try_emplace({stage_class, sync_share});
    Programs& programs = at->second;
    if (!fresh) return programs;
    const StageClass& of = classes_[stage_class];
    const ChainProblem whole = problem_of(of, sync_share);
    const auto add = [&](double reserve, const auto& has) {
      ChainProblem part = whole;
      part.limit -= reserve;
      for (std::vector<ChainCost>& costs : part.costs) {
        for (std::size_t s = 0; s < costs.size(); ++s) {
          if (!has(space_.strategies[s])) costs[s].time = kInfinite;
        }
      }
      programs.emplace_back(part, ChainLimits{.stop = [this] { return stop_ && stop_(); }});
    };
    const auto add_splits = [&](double reserve, bool recompute) {
      if (space_.mixed) return add(reserve, [&](const LayerStrategy& one) { return recompute || !one.recompute; });
      for (const LayerStrategy& split : space_.strategies) {
        if (split.recompute) continue;
        add(reserve, [&](const LayerStrategy& one) { return one.same_split(split) && (recompute || !one.recompute); });
      }
    };
    // Without recompute a stage need not hold what recomputing takes.
    if (of.recompute_reserve > 0) add_splits(0, false);
    add_splits(of.recompute_reserve, true);
    return programs;
  }
  std::optional<StagePoint> solve(std::size_t slot, double sync_share) {
    const std::size_t stage_class = slot / static_cast<std::size_t>(ranges_.count());
    const auto number = static_cast<std::int32_t>(slot % static_cast<std::size_t>(ranges_.count()));
    const StageClass& of = classes_[stage_class];
    std::optional<StagePoint> best;
    for (ChainProgram& program : programs(stage_class, sync_share)) {
      std::optional<StagePoint> point = solve_with(program, of, ranges_.kinds_of(number));
      if (!point) continue;
      if (!best || weighed(point->sum, sync_share) < weighed(best->sum, sync_share)) best = std::move(point);
    }
    return best;
  }
  [[nodiscard]] std::optional<StagePoint> solve_with(ChainProgram& program, const StageClass& of,
                                                     std::span<const std::int32_t> kinds) {
    std::optional<ChainChoice> choice = program.solve(kinds);
    cut_short_ = cut_short_ || program.cut_short();
    if (!choice) return std::nullopt;
    StagePoint point;
    point.memory_mib = choice->memory;
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const auto type = static_cast<std::size_t>(kinds[i]);
      const auto s = static_cast<std::size_t>(choice->strategies[i]);
      const LayerCost& cost = of.costs[type][s];
      double change = 0;
      if (i > 0 && !changes_.empty() && !changes_[type].empty()) {
        change = changes_[type][static_cast<std::size_t>(choice->strategies[i - 1]) * space_.strategies.size() + s];
      }
      point.sum.plain_ms += cost.plain_ms + change;
      point.sum.sync_ms += cost.sync_ms + change;
    }
    point.strategies = std::move(choice->strategies);
    return point;
  }
  // The least is concave in the weight: a choice that is best at two weights is best in between, and so is one that is
  // best at a weight and as good as the best at another one.
  [[nodiscard]] const StagePoint* recall(const Known& known, double sync_share) const {
    const auto after = std::lower_bound(known.solved.begin(), known.solved.end(), sync_share,
                                        [](const Solved& solved, double share) { return solved.sync_share < share; });
    if (after == known.solved.end()) return nullptr;
    if (after->sync_share == sync_share) return known.points[after->point].get();
    if (after == known.solved.begin()) return nullptr;
    const Solved& before = *(after - 1);
    const StagePoint* const left = known.points[before.point].get();
    const StagePoint* const right = known.points[after->point].get();
    if (weighed(left->sum, after->sync_share) <= after->value * (1 + kEqual)) return left;
    if (weighed(right->sum, before.sync_share) <= before.value * (1 + kEqual)) return right;
    return nullptr;
  }

  const Formulas& formulas_;
  const TableSpace& space_;
  const LayerRanges& ranges_;
  std::function<bool()> stop_;
  bool cut_short_ = false;
  bool recompute_ = false;  // some of the strategies do
  std::vector<StageClass> classes_;
  std::vector<std::int32_t> class_of_;        // by stage
  std::vector<std::vector<double>> changes_;  // by type; empty = nothing
  std::map<std::pair<std::size_t, double>, Programs> programs_;
  std::vector<std::unique_ptr<Known>> known_;  // by slot; null where nobody has asked
  std::map<double, CutValues> values_;
};

}  // namespace trimtab::tuner::galvatron
