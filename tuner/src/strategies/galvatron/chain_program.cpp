#include "strategies/galvatron/chain_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.hpp"
#include "strategies/galvatron/reduced_chain.hpp"

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-12;  // of a time
constexpr int kHalvings = 48;     // of the multiplier's range

struct Label {
  double time = 0;
  double all = 0;     // equation 2 of the layers so far
  double states = 0;  // of them, raised to where it begins to matter
  std::int32_t strategy = 0;
  std::int32_t next = -1;  // label of the layer after
};

class Solver {
 public:
  explicit Solver(const ChainProblem& problem)
      : problem_(problem), reduced_(problem), width_(static_cast<std::size_t>(reduced_.count())) {}

  std::optional<ChainChoice> solve() {
    if (width_ == 0) return std::nullopt;
    for (const std::vector<ChainCost>& of : problem_.costs) {
      for (const ChainCost& cost : of) {
        if (cost.time < kInfinite) largest_peak_ = std::max(largest_peak_, cost.peak);
      }
    }
    tabulate_least_memory();
    if (least_memory_.back() > problem_.limit) return std::nullopt;
    bound_by_multiplier();
    if (best_ && multiplier_ == 0) return best_;
    return search();
  }

 private:
  [[nodiscard]] std::size_t layers() const { return problem_.kinds.size(); }
  [[nodiscard]] std::int32_t kind(std::size_t layer) const { return problem_.kinds[layer]; }

  // Of the first layers: what they keep and their states, under the strategies that need least.
  void tabulate_least_memory() {
    least_memory_.assign(1, 0);
    for (std::size_t i = 0; i < layers(); ++i) {
      double least = kInfinite;
      for (std::int32_t s = 0; s < reduced_.count(); ++s) {
        const ChainCost& cost = reduced_.cost(kind(i), s);
        if (cost.time < kInfinite) least = std::min(least, cost.kept + cost.states);
      }
      least_memory_.push_back(least_memory_.back() + least);
    }
  }

  // The chain that minimizes time + multiplier * (kept + states), from the first layer on.
  std::vector<std::int32_t> relaxed(double multiplier) {
    prefix_.assign((layers() + 1) * width_, 0);
    from_.assign(layers() * width_, 0);
    for (std::size_t i = 0; i < layers(); ++i) {
      const bool moves = i > 0 && reduced_.changes(kind(i));
      const double* const before = &prefix_[i * width_];
      const auto cheapest = static_cast<std::int32_t>(std::min_element(before, before + width_) - before);
      for (std::size_t s = 0; s < width_; ++s) {
        std::int32_t from = cheapest;
        double least = before[cheapest];
        if (moves) {
          least = kInfinite;
          for (std::size_t p = 0; p < width_; ++p) {
            const double with =
                before[p] + reduced_.change(kind(i), static_cast<std::int32_t>(p), static_cast<std::int32_t>(s));
            if (with < least) {
              least = with;
              from = static_cast<std::int32_t>(p);
            }
          }
        }
        const ChainCost& cost = reduced_.cost(kind(i), static_cast<std::int32_t>(s));
        prefix_[(i + 1) * width_ + s] = least + cost.time + multiplier * (cost.kept + cost.states);
        from_[i * width_ + s] = from;
      }
    }
    const double* const end = &prefix_[layers() * width_];
    std::vector<std::int32_t> choice(layers());
    std::int32_t s = static_cast<std::int32_t>(std::min_element(end, end + width_) - end);
    for (std::size_t i = layers(); i-- > 0;) {
      choice[i] = reduced_.original(s);
      s = from_[i * width_ + static_cast<std::size_t>(s)];
    }
    return choice;
  }

  bool offer(std::vector<std::int32_t> strategies) {
    ChainChoice choice = price_chain(problem_, std::move(strategies));
    if (choice.memory > problem_.limit || !(choice.time < kInfinite)) return false;
    if (!best_ || choice.time < best_->time) best_ = std::move(choice);
    return true;
  }

  // Halves the multiplier's range between what does not fit and what does; keeps the multiplier that fits and the
  // prefix sums that bounds are made of.
  void bound_by_multiplier() {
    if (offer(relaxed(0))) {
      multiplier_ = 0;
      return;
    }
    double low = 0;
    double high = 1e-6;
    while (high < 1e12 && !offer(relaxed(high))) {
      low = high;
      high *= 16;
    }
    std::vector<std::int32_t> too_full = relaxed(low);
    for (int i = 0; i < kHalvings && high > low * (1 + 1e-9); ++i) {
      const double middle = low > 0 ? std::sqrt(low * high) : high / 16;
      std::vector<std::int32_t> choice = relaxed(middle);
      const bool fits = offer(choice);
      (fits ? high : low) = middle;
      if (!fits) too_full = std::move(choice);
      if (high < 1e-15) break;
    }
    multiplier_ = high;
    relaxed(multiplier_);
    free_.assign(prefix_.begin(), prefix_.end());
    tabulate_after();
    if (best_ && any_changes()) join_parts(std::move(too_full));
    fill_gap();
    relaxed(0);
    quick_.assign(prefix_.begin(), prefix_.end());
  }

  [[nodiscard]] bool any_changes() const {
    return std::any_of(problem_.changes.begin(), problem_.changes.end(), [](const auto& of) { return !of.empty(); });
  }

  // The first layers of one choice and the others of another: few changes of layout, memory in between.
  void join_parts(std::vector<std::int32_t> too_full) {
    const std::vector<std::int32_t> base = best_->strategies;
    std::vector<std::vector<std::int32_t>> others{std::move(too_full)};
    for (std::int32_t s = 0; s < reduced_.count(); ++s) others.emplace_back(layers(), reduced_.original(s));
    for (const std::vector<std::int32_t>& other : others) {
      for (std::size_t cut = 1; cut < layers(); ++cut) {
        const auto at = static_cast<std::ptrdiff_t>(cut);
        std::vector<std::int32_t> with = base;
        std::copy(other.begin(), other.begin() + at, with.begin());
        offer(std::move(with));
        with = base;
        std::copy(other.begin() + at, other.end(), with.begin() + at);
        offer(std::move(with));
      }
    }
  }

  // At the multiplier's price: what the layers after each strategy of each layer take.
  void tabulate_after() {
    after_.assign(layers() * width_, 0);
    for (std::size_t i = layers() - 1; i-- > 0;) {
      for (std::size_t s = 0; s < width_; ++s) {
        double least = kInfinite;
        for (std::size_t n = 0; n < width_; ++n) {
          const ChainCost& cost = reduced_.cost(kind(i + 1), static_cast<std::int32_t>(n));
          const double change =
              reduced_.change(kind(i + 1), static_cast<std::int32_t>(s), static_cast<std::int32_t>(n));
          const double priced = cost.time + multiplier_ * (cost.kept + cost.states);
          least = std::min(least, change + priced + after_[(i + 1) * width_ + n]);
        }
        after_[i * width_ + s] = least;
      }
    }
  }

  // No better choice has this strategy in this layer.
  [[nodiscard]] bool hopeless(std::size_t i, std::int32_t s) const {
    if (!best_) return false;
    const auto at = static_cast<std::size_t>(s);
    const double least = free_[(i + 1) * width_ + at] + after_[i * width_ + at] - multiplier_ * problem_.limit;
    return least >= best_->time * (1 - kEqual);
  }

  // Layer by layer, a quicker strategy where it still fits: what the multiplier leaves unused.
  void fill_gap() {
    if (!best_) return;
    for (std::size_t i = layers(); i-- > 0;) {
      for (std::int32_t s = 0; s < reduced_.count(); ++s) {
        std::vector<std::int32_t> with = best_->strategies;
        if (with[i] == reduced_.original(s)) continue;
        if (!(reduced_.cost(kind(i), s).time <
              problem_.costs[static_cast<std::size_t>(kind(i))][static_cast<std::size_t>(with[i])].time))
          continue;
        with[i] = reduced_.original(s);
        offer(std::move(with));
      }
    }
  }

  // What no completion by the layers before takes less than, by the strategy of layer `i`: in time alone, and in time
  // and memory at the multiplier's price.
  void tabulate_bounds(std::size_t i) {
    quick_bound_.resize(width_);
    free_bound_.resize(width_);
    for (std::size_t s = 0; s < width_; ++s) {
      const auto strategy = static_cast<std::int32_t>(s);
      double quick = i == 0 ? 0 : kInfinite;
      double free = quick;
      for (std::size_t p = 0; i > 0 && p < width_; ++p) {
        const double change = reduced_.change(kind(i), static_cast<std::int32_t>(p), strategy);
        quick = std::min(quick, quick_[i * width_ + p] + change);
        free = std::min(free, free_[i * width_ + p] + change);
      }
      quick_bound_[s] = quick;
      free_bound_[s] = free;
    }
  }

  void prepend(std::size_t i, std::int32_t s, const Label& rest, std::int32_t index, double change) {
    const ChainCost& cost = reduced_.cost(kind(i), s);
    Label label;
    label.time = rest.time + cost.time + change;
    label.all = cost.kept + cost.states + std::max(cost.peak + rest.states, rest.all);
    if (label.all + least_memory_[i] > problem_.limit || !(label.time < kInfinite)) return;
    const auto at = static_cast<std::size_t>(s);
    const double bound =
        label.time + std::max(quick_bound_[at], free_bound_[at] - multiplier_ * (problem_.limit - label.all));
    if (best_ && bound >= best_->time * (1 - kEqual)) return;
    label.states = std::max(rest.states + cost.states, label.all - largest_peak_);
    label.strategy = s;
    label.next = index;
    candidates_.push_back(label);
  }

  // Of candidates of one strategy (or of all, where changes cost nothing) those that no other beats.
  void keep_best(std::vector<Label>& into) {
    std::sort(candidates_.begin(), candidates_.end(), [](const Label& a, const Label& b) {
      if (a.all != b.all) return a.all < b.all;
      if (a.time != b.time) return a.time < b.time;
      return a.states < b.states;
    });
    const std::size_t first = into.size();
    double quickest = kInfinite;
    for (const Label& label : candidates_) {
      const double time = label.time * (1 + kEqual);
      bool beaten = false;
      for (std::size_t k = into.size(); quickest <= time && k-- > first && !beaten;) {
        beaten = into[k].time <= time && into[k].states <= label.states;
      }
      if (beaten) continue;
      into.push_back(label);
      quickest = std::min(quickest, label.time);
    }
    candidates_.clear();
  }

  // Labels that one of another strategy beats even with the dearer change of layout before it. Only labels whose states
  // have stopped to matter are taken to beat: they do so whatever the other's states are.
  void drop_detours(std::int32_t kind, std::vector<Label>& labels) {
    std::vector<double> dearer(width_ * width_, 0);  // [by * width + instead of]
    for (std::size_t by = 0; by < width_; ++by) {
      for (std::size_t s = 0; s < width_; ++s) {
        for (std::size_t p = 0; p < width_; ++p) {
          const auto from = static_cast<std::int32_t>(p);
          const double more = reduced_.change(kind, from, static_cast<std::int32_t>(by)) -
                              reduced_.change(kind, from, static_cast<std::int32_t>(s));
          dearer[by * width_ + s] = p == 0 ? more : std::max(dearer[by * width_ + s], more);
        }
      }
    }
    std::sort(labels.begin(), labels.end(),
              [](const Label& a, const Label& b) { return a.all != b.all ? a.all < b.all : a.time < b.time; });
    std::vector<double> quickest(width_, kInfinite);
    std::erase_if(labels, [&](const Label& label) {
      const auto s = static_cast<std::size_t>(label.strategy);
      for (std::size_t by = 0; by < width_; ++by) {
        if (by != s && quickest[by] + dearer[by * width_ + s] <= label.time) return true;
      }
      if (label.states <= label.all - largest_peak_) quickest[s] = std::min(quickest[s], label.time);
      return false;
    });
  }

  std::optional<ChainChoice> search() {
    std::vector<std::vector<Label>> of(layers() + 1);
    of[layers()].push_back({});
    std::uint64_t looked_at = 0;
    for (std::size_t i = layers(); i-- > 0;) {
      tabulate_bounds(i);
      const std::vector<Label>& rest = of[i + 1];
      const bool after = i + 1 < layers() && reduced_.changes(kind(i + 1));
      const bool separate = i > 0 && reduced_.changes(kind(i));
      for (std::int32_t s = 0; s < reduced_.count(); ++s) {
        if (hopeless(i, s)) continue;
        for (std::size_t k = 0; k < rest.size(); ++k) {
          const double change = after ? reduced_.change(kind(i + 1), s, rest[k].strategy) : 0;
          prepend(i, s, rest[k], static_cast<std::int32_t>(k), change);
        }
        looked_at += rest.size();
        if (separate) keep_best(of[i]);
      }
      if (!separate) keep_best(of[i]);
      if (separate) drop_detours(kind(i), of[i]);
    }
    const auto quickest =
        std::min_element(of[0].begin(), of[0].end(), [](const Label& a, const Label& b) { return a.time < b.time; });
    if (quickest != of[0].end()) {
      std::vector<std::int32_t> strategies;
      const Label* label = &*quickest;
      for (std::size_t i = 0; i < layers(); ++i) {
        strategies.push_back(reduced_.original(label->strategy));
        label = &of[i + 1][static_cast<std::size_t>(label->next)];
      }
      offer(std::move(strategies));
    }
    if (best_) best_->labels = looked_at;
    return best_;
  }

  const ChainProblem& problem_;
  ReducedChain reduced_;
  std::size_t width_;
  double largest_peak_ = 0;
  double multiplier_ = 0;
  std::vector<double> prefix_, free_, quick_, after_, least_memory_;
  std::vector<double> quick_bound_, free_bound_;
  std::vector<std::int32_t> from_;
  std::vector<Label> candidates_;
  std::optional<ChainChoice> best_;
};

}  // namespace

ChainChoice price_chain(const ChainProblem& problem, std::vector<std::int32_t> strategies) {
  TRIMTAB_ASSERT(strategies.size() == problem.kinds.size(), "one strategy for each layer");
  ChainChoice choice;
  double kept = 0;
  double states = 0;
  double highest = 0;
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const auto kind = static_cast<std::size_t>(problem.kinds[i]);
    const ChainCost& cost = problem.costs[kind][static_cast<std::size_t>(strategies[i])];
    choice.time += cost.time;
    if (i > 0 && !problem.changes.empty() && !problem.changes[kind].empty()) {
      choice.time +=
          problem.changes[kind][static_cast<std::size_t>(strategies[i - 1]) * problem.strategies + strategies[i]];
    }
    kept += cost.kept;
    states += cost.states;
    highest = std::max(highest, kept + cost.peak);
  }
  choice.memory = states + highest;
  choice.strategies = std::move(strategies);
  return choice;
}

std::optional<ChainChoice> solve_chain(const ChainProblem& problem) {
  if (problem.kinds.empty()) return std::nullopt;
  return Solver(problem).solve();
}

}  // namespace trimtab::tuner::galvatron
