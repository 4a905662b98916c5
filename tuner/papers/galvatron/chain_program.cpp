#include "papers/galvatron/chain_program.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kEqual = 1e-12;        // of a time
constexpr std::size_t kAsks = 1 << 14;  // labels between two questions whether to stop
constexpr int kChords = 64;             // of the hull of times and memories: far more than a chain has

// A chain problem without the strategies that another one replaces everywhere at no more time and memory.
class ReducedChain {
 public:
  // Borrows the problem.
  explicit ReducedChain(const ChainProblem& problem) : problem_(problem) {
    for (std::int32_t s = 0; s < problem.strategies; ++s) {
      if (usable(s) && !beaten(s)) kept_.push_back(s);
    }
  }

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
  [[nodiscard]] bool usable(std::int32_t s) const {
    return std::any_of(problem_.costs.begin(), problem_.costs.end(), [s](const std::vector<ChainCost>& of) {
      return of[static_cast<std::size_t>(s)].time < kInfinite;
    });
  }
  // The most that changes to and from `by` cost beyond those to and from `s`, of whatever kinds the layers are.
  [[nodiscard]] double detour(std::int32_t s, std::int32_t by) const {
    double in = 0;
    double out = 0;
    for (std::int32_t kind = 0; kind < static_cast<std::int32_t>(problem_.costs.size()); ++kind) {
      if (!changes(kind)) continue;
      for (std::int32_t p = 0; p < problem_.strategies; ++p) {
        if (p == s) continue;
        in = std::max(in, raw(kind, p, by) - raw(kind, p, s));
        out = std::max(out, raw(kind, by, p) - raw(kind, s, p));
      }
    }
    return in + out;
  }
  [[nodiscard]] bool beats(std::int32_t by, std::int32_t s) const {
    const double detours = detour(s, by);
    bool equal = true;
    for (const std::vector<ChainCost>& of : problem_.costs) {
      const ChainCost& a = of[static_cast<std::size_t>(by)];
      const ChainCost& b = of[static_cast<std::size_t>(s)];
      const bool no_more = a.kept <= b.kept && a.states <= b.states && a.peak <= b.peak;
      if (!no_more || !(a.time + detours <= b.time)) return false;
      equal = equal && a.time == b.time && a.kept == b.kept && a.states == b.states && a.peak == b.peak;
    }
    return !equal || by < s;
  }
  [[nodiscard]] bool beaten(std::int32_t s) const {
    for (std::int32_t by = 0; by < problem_.strategies; ++by) {
      if (by != s && usable(by) && beats(by, s)) return true;
    }
    return false;
  }

  const ChainProblem& problem_;
  std::vector<std::int32_t> kept_;
};

struct Label {
  double time = 0;
  double all = 0;     // equation 2 of the layers so far
  double states = 0;  // of them, raised to where it begins to matter
  std::int32_t strategy = 0;
  std::int32_t next = -1;  // label of the layer after
};

// A relaxed choice: what it takes, without peaks.
struct Relaxed {
  std::vector<std::int32_t> strategies;
  double time = 0;
  double linear = 0;  // kept and states
  bool fits = false;  // by equation 2
};

}  // namespace

class ChainProgram::Solver {
 public:
  Solver(const ChainProblem& problem, const ReducedChain& reduced, ChainLimits limits)
      : limits_(std::move(limits)), limit_(problem.limit), width_(static_cast<std::size_t>(reduced.count())) {
    for (std::int32_t s = 0; s < reduced.count(); ++s) originals_.push_back(reduced.original(s));
    flatten(problem, reduced);
  }

  std::optional<ChainChoice> solve(std::span<const std::int32_t> kinds) {
    kinds_ = kinds;
    best_.reset();
    cut_short_ = false;
    best_time_ = kInfinite;
    if (width_ == 0 || kinds.empty()) return std::nullopt;
    tabulate_least_memory();
    if (least_memory_.back() > limit_) return std::nullopt;
    if (!bound_by_multiplier()) search();
    if (!best_) return std::nullopt;
    for (std::int32_t& s : best_->strategies) s = originals_[static_cast<std::size_t>(s)];
    return best_;
  }

  [[nodiscard]] bool cut_short() const { return cut_short_; }

 private:
  [[nodiscard]] std::size_t layers() const { return kinds_.size(); }
  [[nodiscard]] std::size_t kind(std::size_t layer) const { return static_cast<std::size_t>(kinds_[layer]); }
  [[nodiscard]] const ChainCost& cost(std::size_t kind, std::size_t s) const { return costs_[kind * width_ + s]; }
  [[nodiscard]] bool changes(std::size_t kind) const { return !changes_[kind].empty(); }
  // By the strategy before, then by the layer's own; only where changes() says that there are any.
  [[nodiscard]] const double* change(std::size_t kind, std::size_t from) const {
    return &changes_[kind][from * width_];
  }

  // What is left of the problem as dense rows.
  void flatten(const ChainProblem& problem, const ReducedChain& reduced) {
    changes_.resize(problem.costs.size());
    dearer_.resize(problem.costs.size());
    for (std::size_t kind = 0; kind < problem.costs.size(); ++kind) {
      const auto number = static_cast<std::int32_t>(kind);
      for (std::int32_t s = 0; s < reduced.count(); ++s) {
        costs_.push_back(reduced.cost(number, s));
        if (costs_.back().time < kInfinite) largest_peak_ = std::max(largest_peak_, costs_.back().peak);
      }
      if (!reduced.changes(number)) continue;
      std::vector<double>& rows = changes_[kind];
      for (std::int32_t from = 0; from < reduced.count(); ++from) {
        for (std::int32_t to = 0; to < reduced.count(); ++to) rows.push_back(reduced.change(number, from, to));
      }
      if (std::all_of(rows.begin(), rows.end(), [](double ms) { return ms == 0; })) rows.clear();
      tabulate_dearer(rows, dearer_[kind]);
    }
    priced_.resize(costs_.size());
  }

  // By how much changes to one strategy cost more than those to another at most: [by * width + instead of].
  void tabulate_dearer(const std::vector<double>& rows, std::vector<double>& dearer) const {
    if (rows.empty()) return;
    dearer.assign(width_ * width_, -kInfinite);
    for (std::size_t by = 0; by < width_; ++by) {
      for (std::size_t s = 0; s < width_; ++s) {
        double& most = dearer[by * width_ + s];
        for (std::size_t p = 0; p < width_; ++p) most = std::max(most, rows[p * width_ + by] - rows[p * width_ + s]);
      }
    }
  }

  // Of the first layers: what they keep and their states, under the strategies that need least.
  void tabulate_least_memory() {
    least_memory_.assign(1, 0);
    for (std::size_t i = 0; i < layers(); ++i) {
      double least = kInfinite;
      for (std::size_t s = 0; s < width_; ++s) {
        const ChainCost& of = cost(kind(i), s);
        if (of.time < kInfinite) least = std::min(least, of.kept + of.states);
      }
      least_memory_.push_back(least_memory_.back() + least);
    }
  }

  // The chain that minimizes time_weight * time + multiplier * (kept + states), from the first layer on.
  Relaxed relaxed(double time_weight, double multiplier) {
    for (std::size_t at = 0; at < costs_.size(); ++at) {
      const ChainCost& of = costs_[at];
      priced_[at] = of.time < kInfinite ? time_weight * of.time + multiplier * (of.kept + of.states) : kInfinite;
    }
    prefix_.resize((layers() + 1) * width_);
    from_.resize(layers() * width_);
    std::fill_n(prefix_.begin(), width_, 0.0);
    for (std::size_t i = 0; i < layers(); ++i) {
      const double* const before = &prefix_[i * width_];
      double* const after = &prefix_[(i + 1) * width_];
      std::int32_t* const from = &from_[i * width_];
      const double* const own = &priced_[kind(i) * width_];
      if (i > 0 && changes(kind(i))) {
        extend_with_changes(kind(i), time_weight, before, after, from);
      } else {
        const auto cheapest = static_cast<std::int32_t>(std::min_element(before, before + width_) - before);
        std::fill_n(after, width_, before[cheapest]);
        std::fill_n(from, width_, cheapest);
      }
      for (std::size_t s = 0; s < width_; ++s) after[s] += own[s];
    }
    return followed_back();
  }

  void extend_with_changes(std::size_t kind, double weight, const double* before, double* after, std::int32_t* from) {
    std::fill_n(after, width_, kInfinite);
    std::fill_n(from, width_, 0);
    for (std::size_t p = 0; p < width_; ++p) {
      const double* const row = change(kind, p);
      for (std::size_t s = 0; s < width_; ++s) {
        const double with = before[p] + weight * row[s];
        if (with >= after[s]) continue;
        after[s] = with;
        from[s] = static_cast<std::int32_t>(p);
      }
    }
  }

  Relaxed followed_back() const {
    const double* const end = &prefix_[layers() * width_];
    Relaxed choice;
    choice.strategies.resize(layers());
    auto s = static_cast<std::int32_t>(std::min_element(end, end + width_) - end);
    for (std::size_t i = layers(); i-- > 0;) {
      choice.strategies[i] = s;
      s = from_[i * width_ + static_cast<std::size_t>(s)];
    }
    return choice;
  }

  struct Totals {
    double time = 0;
    double linear = 0;
    double memory = 0;
  };

  [[nodiscard]] Totals totals(const std::vector<std::int32_t>& strategies) const {
    Totals totals;
    double kept = 0;
    double states = 0;
    double highest = 0;
    for (std::size_t i = 0; i < strategies.size(); ++i) {
      const auto s = static_cast<std::size_t>(strategies[i]);
      const ChainCost& of = cost(kind(i), s);
      totals.time += of.time;
      if (i > 0 && changes(kind(i))) totals.time += change(kind(i), static_cast<std::size_t>(strategies[i - 1]))[s];
      kept += of.kept;
      states += of.states;
      highest = std::max(highest, kept + of.peak);
    }
    totals.linear = kept + states;
    totals.memory = states + highest;
    return totals;
  }

  bool offer(const std::vector<std::int32_t>& strategies) {
    const Totals priced = totals(strategies);
    if (priced.memory > limit_ || !(priced.time < kInfinite)) return false;
    if (priced.time < best_time_) {
      best_time_ = priced.time;
      best_ = ChainChoice{priced.time, priced.memory, strategies, 0};
    }
    return true;
  }

  Relaxed offered(double time_weight, double multiplier) {
    Relaxed choice = relaxed(time_weight, multiplier);
    const Totals priced = totals(choice.strategies);
    choice.time = priced.time;
    choice.linear = priced.linear;
    choice.fits = offer(choice.strategies);
    return choice;
  }

  // Walks the hull of times and memories to the edge between what fits and what does not; keeps the edge's slope and
  // the prefix sums that bounds are made of. True: the quickest choice fits, and nothing is left to search.
  bool bound_by_multiplier() {
    Relaxed full = offered(1, 0);
    if (full.fits) return true;
    quick_.assign(prefix_.begin(), prefix_.end());
    Relaxed lean = offered(kEqual, 1);
    multiplier_ = slope(full, lean);
    for (int i = 0; i < kChords && multiplier_ > 0; ++i) {
      Relaxed middle = offered(1, multiplier_);
      const double chord = full.time + multiplier_ * full.linear;
      if (middle.time + multiplier_ * middle.linear >= chord * (1 - kEqual)) break;
      (middle.fits ? lean : full) = std::move(middle);
      multiplier_ = slope(full, lean);
    }
    relaxed(1, multiplier_);
    free_.assign(prefix_.begin(), prefix_.end());
    tabulate_after();
    if (best_ && any_changes()) join_parts(full.strategies);
    if (best_) fill_gap();
    return false;
  }

  // Ms for a unit of memory between two choices; 0 where the second one is no leaner.
  [[nodiscard]] static double slope(const Relaxed& full, const Relaxed& lean) {
    const double less = full.linear - lean.linear;
    return less > 0 ? std::max(0.0, (lean.time - full.time) / less) : 0;
  }

  [[nodiscard]] bool any_changes() const {
    return std::any_of(changes_.begin(), changes_.end(), [](const auto& of) { return !of.empty(); });
  }

  // The first layers of one choice and the others of another: few changes of layout, memory in between.
  void join_parts(const std::vector<std::int32_t>& too_full) {
    const std::vector<std::int32_t> base = best_->strategies;
    std::vector<std::int32_t> with;
    const auto join = [&](const std::vector<std::int32_t>& other) {
      for (std::size_t cut = 1; cut < layers(); ++cut) {
        const auto at = static_cast<std::ptrdiff_t>(cut);
        with = base;
        std::copy(other.begin(), other.begin() + at, with.begin());
        offer(with);
        with = base;
        std::copy(other.begin() + at, other.end(), with.begin() + at);
        offer(with);
      }
    };
    join(too_full);
    for (std::size_t s = 0; s < width_; ++s) {
      join(std::vector<std::int32_t>(layers(), static_cast<std::int32_t>(s)));
    }
  }

  // At the multiplier's price: what the layers after each strategy of each layer take.
  void tabulate_after() {
    after_.assign(layers() * width_, 0);
    for (std::size_t i = layers() - 1; i-- > 0;) {
      const std::size_t next = kind(i + 1);
      const double* const rest = &after_[(i + 1) * width_];
      const double* const own = &priced_[next * width_];
      const double* const none = nullptr;
      for (std::size_t s = 0; s < width_; ++s) {
        const double* const row = changes(next) ? change(next, s) : none;
        double least = kInfinite;
        for (std::size_t n = 0; n < width_; ++n) least = std::min(least, (row ? row[n] : 0) + own[n] + rest[n]);
        after_[i * width_ + s] = least;
      }
    }
  }

  // No better choice has this strategy in this layer.
  [[nodiscard]] bool hopeless(std::size_t i, std::size_t s) const {
    const double least = free_[(i + 1) * width_ + s] + after_[i * width_ + s] - multiplier_ * limit_;
    return best_ && least >= best_time_ * (1 - kEqual);
  }

  // Layer by layer, a quicker strategy where it still fits: what the multiplier leaves unused.
  void fill_gap() {
    std::vector<std::int32_t> with;
    for (std::size_t i = layers(); i-- > 0;) {
      for (std::size_t s = 0; s < width_; ++s) {
        const auto now = static_cast<std::size_t>(best_->strategies[i]);
        if (!(cost(kind(i), s).time < cost(kind(i), now).time)) continue;
        with = best_->strategies;
        with[i] = static_cast<std::int32_t>(s);
        offer(with);
      }
    }
  }

  // What no completion by the layers before takes less than, by the strategy of layer `i`: in time alone, and in time
  // and memory at the multiplier's price.
  void tabulate_bounds(std::size_t i) {
    quick_bound_.assign(width_, i == 0 ? 0 : kInfinite);
    free_bound_.assign(width_, i == 0 ? 0 : kInfinite);
    for (std::size_t p = 0; i > 0 && p < width_; ++p) {
      const double* const row = changes(kind(i)) ? change(kind(i), p) : nullptr;
      for (std::size_t s = 0; s < width_; ++s) {
        const double more = row ? row[s] : 0;
        quick_bound_[s] = std::min(quick_bound_[s], quick_[i * width_ + p] + more);
        free_bound_[s] = std::min(free_bound_[s], free_[i * width_ + p] + more);
      }
    }
  }

  void prepend(std::size_t i, std::size_t s, const Label& rest, std::int32_t index, double change) {
    const ChainCost& of = cost(kind(i), s);
    Label label;
    label.time = rest.time + of.time + change;
    label.all = of.kept + of.states + std::max(of.peak + rest.states, rest.all);
    if (label.all + least_memory_[i] > limit_ || !(label.time < kInfinite)) return;
    const double bound = label.time + std::max(quick_bound_[s], free_bound_[s] - multiplier_ * (limit_ - label.all));
    if (bound >= best_time_ * (1 - kEqual)) return;
    label.states = std::max(rest.states + of.states, label.all - largest_peak_);
    label.strategy = static_cast<std::int32_t>(s);
    label.next = index;
    candidates_.push_back(label);
  }

  // Of candidates of one strategy (or of all, where changes cost nothing) those that no other beats.
  void keep_best(std::vector<Label>& into) {
    std::size_t looked_at = 0;
    std::sort(candidates_.begin(), candidates_.end(), [](const Label& a, const Label& b) {
      if (a.all != b.all) return a.all < b.all;
      if (a.time != b.time) return a.time < b.time;
      return a.states < b.states;
    });
    const std::size_t first = into.size();
    double quickest = kInfinite;
    for (const Label& label : candidates_) {
      if (++looked_at % kAsks == 0 && must_end()) break;
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
  void drop_detours(const std::vector<double>& dearer, std::vector<Label>& labels) {
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

  bool must_end() { return cut_short_ = cut_short_ || (limits_.stop && limits_.stop()); }

  // Of one layer, before each label of the next; false where the limits end the search.
  bool prepend_all(std::size_t i, std::size_t s, const double* row) {
    const std::vector<Label>& rest = labels_[i + 1];
    for (std::size_t k = 0; k < rest.size(); ++k) {
      if (++looked_at_ % kAsks == 0 && must_end()) return false;
      prepend(i, s, rest[k], static_cast<std::int32_t>(k), row ? row[rest[k].strategy] : 0);
    }
    cut_short_ = cut_short_ || kept_ + labels_[i].size() + candidates_.size() > limits_.most_labels;
    return !cut_short_;
  }

  // What is left then is the best choice so far.
  void search() {
    if (labels_.size() < layers() + 1) labels_.resize(layers() + 1);
    for (std::vector<Label>& of : labels_) of.clear();
    labels_[layers()].push_back({});
    looked_at_ = 0;
    kept_ = 0;
    candidates_.clear();
    for (std::size_t i = layers(); i-- > 0;) {
      tabulate_bounds(i);
      const bool after = i + 1 < layers() && changes(kind(i + 1));
      const bool separate = i > 0 && changes(kind(i));
      for (std::size_t s = 0; s < width_; ++s) {
        if (hopeless(i, s)) continue;
        const double* const row = after ? change(kind(i + 1), s) : nullptr;
        if (!prepend_all(i, s, row)) return;
        if (separate) keep_best(labels_[i]);
      }
      if (!separate) keep_best(labels_[i]);
      if (cut_short_) return;
      if (separate) drop_detours(dearer_[kind(i)], labels_[i]);
      kept_ += labels_[i].size();
    }
    offer_quickest();
    if (best_) best_->labels = looked_at_;
  }

  void offer_quickest() {
    const std::vector<Label>& whole = labels_[0];
    const auto quickest =
        std::min_element(whole.begin(), whole.end(), [](const Label& a, const Label& b) { return a.time < b.time; });
    if (quickest == whole.end()) return;
    std::vector<std::int32_t> strategies;
    const Label* label = &*quickest;
    for (std::size_t i = 0; i < layers(); ++i) {
      strategies.push_back(label->strategy);
      label = &labels_[i + 1][static_cast<std::size_t>(label->next)];
    }
    offer(strategies);
  }

  const ChainLimits limits_;
  const double limit_;
  const std::size_t width_;
  std::vector<std::int32_t> originals_;       // the problem's numbers of the strategies that are left
  std::vector<ChainCost> costs_;              // [kind * width + strategy]
  std::vector<std::vector<double>> changes_;  // by kind, [from * width + to]; empty = nothing
  std::vector<std::vector<double>> dearer_;   // by kind; empty where changes_ are
  double largest_peak_ = 0;
  // Of the chain that is being solved.
  std::span<const std::int32_t> kinds_;
  double multiplier_ = 0;
  std::vector<double> priced_, prefix_, free_, quick_, after_, least_memory_;
  std::vector<double> quick_bound_, free_bound_;
  std::vector<std::int32_t> from_;
  std::vector<Label> candidates_;
  std::vector<std::vector<Label>> labels_;  // by layer
  std::optional<ChainChoice> best_;         // in the reduced chain's numbers
  double best_time_ = kInfinite;
  std::uint64_t looked_at_ = 0;
  std::size_t kept_ = 0;  // labels of the layers that are done
  bool cut_short_ = false;
};

ChainProgram::ChainProgram(const ChainProblem& problem, ChainLimits limits)
    : solver_(std::make_unique<Solver>(problem, ReducedChain(problem), std::move(limits))) {}
ChainProgram::~ChainProgram() = default;
ChainProgram::ChainProgram(ChainProgram&&) noexcept = default;
ChainProgram& ChainProgram::operator=(ChainProgram&&) noexcept = default;

std::optional<ChainChoice> ChainProgram::solve(std::span<const std::int32_t> kinds) {
  return solver_->solve(kinds);
}

bool ChainProgram::cut_short() const {
  return solver_->cut_short();
}

}  // namespace trimtab::tuner::galvatron
