#include "native/stage/recompute_choice.hpp"

#include "solvers/cheapest_cover.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kNodes = 20000;     // of one threshold
constexpr std::int64_t kWaysNodes = 2000;  // the same, where units have several ways
constexpr std::size_t kThresholds = 24;    // beyond, several of them are looked at as one
constexpr std::size_t kFewClasses = 32;
constexpr double kInfinite = std::numeric_limits<double>::infinity();

// One way to recompute inside of a unit.
struct UnitRecompute {
  double time = 0;
  double freed = 0;                                  // bytes, over all microbatches in flight
  double peak = 0;                                   // bytes that come back while it is recomputed
  const std::vector<std::uint8_t>* again = nullptr;  // by operator of the unit; null: its only one is
  auto operator<=>(const UnitRecompute&) const = default;
};

// Units that cost and free the same, by their first places in the stage.
struct Class {
  std::vector<UnitRecompute> ways;
  std::vector<std::size_t> units;
};

class Classes {
 public:
  // Of the first `operators` of the stage.
  Classes(const StageInputs& inputs, std::size_t operators, KnownPatterns* known) : inputs_(inputs), known_(known) {
    for (std::size_t begin = 0; begin < operators;) {
      std::size_t end = begin + 1;
      while (inputs.ends_run[end - 1] == 0) ++end;
      add(begin, end);
      begin = end;
    }
  }

  [[nodiscard]] const std::vector<Class>& all() const { return classes_; }
  [[nodiscard]] bool complete() const { return complete_; }

 private:
  void add(std::size_t begin, std::size_t end) {
    const double scale = inputs_.in_flight;
    ways_.clear();
    if (end == begin + 1) {
      const OperatorPrice& price = *inputs_.prices[begin];
      const double freed = (price.stored - inputs_.freed_output[begin] - inputs_.kept_output[begin]) * scale;
      if (freed > 0) ways_.push_back({price.forward, freed, inputs_.recompute_peak(begin)});
    } else {
      const RecomputePatterns& patterns = patterns_of(begin, end);
      complete_ = complete_ && patterns.complete;
      for (const RecomputePattern& pattern : patterns.patterns) {
        ways_.push_back({pattern.time, pattern.freed * scale, pattern.peak, &pattern.again});
      }
    }
    if (!ways_.empty()) add_unit(begin);
  }

  const RecomputePatterns& patterns_of(std::size_t begin, std::size_t end) {
    if (known_ != nullptr) return known_->of(inputs_, begin, end);
    return own_.of(inputs_, begin, end);
  }

  // Layers that repeat have few classes: looked for one by one among the latest.
  void add_unit(std::size_t begin) {
    const std::size_t first = classes_.size() > kFewClasses ? classes_.size() - kFewClasses : 0;
    for (std::size_t c = first; c < classes_.size(); ++c) {
      if (classes_[c].ways == ways_) return classes_[c].units.push_back(begin);
    }
    classes_.push_back({ways_, {begin}});
  }

  const StageInputs& inputs_;
  KnownPatterns* known_;
  KnownPatterns own_;
  std::vector<UnitRecompute> ways_;  // of the unit that is being added
  std::vector<Class> classes_;
  bool complete_ = true;
};

// What is left to choose from where the most that a run brings back is between two bounds.
struct Threshold {
  double need = 0;   // of bytes, for the upper one
  double floor = 0;  // no choice between them takes less
  std::vector<CoverClass> eligible;
  std::vector<std::vector<std::size_t>> ways;  // of each class, as it has them
};

struct Solution {
  double time = kInfinite;
  double floor = kInfinite;  // of the time
  double excess = kInfinite;
  std::vector<std::size_t> places;  // of operators that are recomputed
};

// What a stage needs above its limit without recompute, and what is released before anything is recomputed.
struct Demand {
  double over = 0, released = 0;
  [[nodiscard]] double need(double peak) const { return over + std::max(0.0, peak - released); }
};

// Ways of up to `peak`, without those that another one beats.
Threshold threshold(const std::vector<Class>& classes, double peak, const Demand& demand) {
  Threshold of;
  of.need = demand.need(peak);
  for (const Class& cls : classes) {
    of.eligible.emplace_back().units = static_cast<std::int32_t>(cls.units.size());
    of.ways.emplace_back();
    double freed = 0;
    for (std::size_t way = 0; way < cls.ways.size(); ++way) {
      if (cls.ways[way].peak > peak || cls.ways[way].freed <= freed) continue;
      freed = cls.ways[way].freed;
      of.eligible.back().ways.push_back({cls.ways[way].time, freed});
      of.ways.back().push_back(way);
    }
  }
  return of;
}

void take(const std::vector<Class>& classes, const Threshold& of, const CheapestCover::Counts& counts, Solution& out) {
  out.places.clear();
  for (std::size_t c = 0; c < counts.size(); ++c) {
    // The first units: they are recomputed last in the backward pass, beside the all-reduces of those after them.
    std::size_t unit = 0;
    for (std::size_t way = 0; way < counts[c].size(); ++way) {
      const std::vector<std::uint8_t>* const again = classes[c].ways[of.ways[c][way]].again;
      for (std::int32_t n = 0; n < counts[c][way]; ++n) {
        const std::size_t begin = classes[c].units[unit++];
        if (again == nullptr) out.places.push_back(begin);
        for (std::size_t k = 0; again != nullptr && k < again->size(); ++k) {
          if ((*again)[k] != 0) out.places.push_back(begin + k);
        }
      }
    }
  }
}

// Of those that cost nothing, the largest leaves all others to choose from.
std::vector<double> peaks_of(const std::vector<Class>& classes, double released) {
  std::vector<double> peaks;
  for (const Class& cls : classes) {
    for (const UnitRecompute& way : cls.ways) peaks.push_back(way.peak);
  }
  std::ranges::sort(peaks);
  peaks.erase(std::unique(peaks.begin(), peaks.end()), peaks.end());
  const auto dear = std::upper_bound(peaks.begin(), peaks.end(), released);
  if (dear - peaks.begin() > 1) peaks.erase(peaks.begin(), dear - 1);
  return peaks;
}

bool several_ways(const std::vector<Class>& classes) {
  return std::ranges::any_of(classes, [](const Class& cls) { return cls.ways.size() > 1; });
}

// Those that may suffice; what is freed at best where none does.
std::vector<Threshold> thresholds_of(const std::vector<Class>& classes, const Demand& demand, Solution& best) {
  std::vector<Threshold> thresholds;
  const std::vector<double> peaks = peaks_of(classes, demand.released);
  const std::size_t together = (peaks.size() + kThresholds - 1) / kThresholds;
  const std::size_t step = several_ways(classes) ? std::max<std::size_t>(together, 1) : 1;
  for (std::size_t first = 0; first < peaks.size(); first += step) {
    Threshold of = threshold(classes, peaks[std::min(first + step, peaks.size()) - 1], demand);
    CheapestCover cover(of.eligible);
    of.floor = cover.relaxed(demand.need(peaks[first]));
    if (cover.capacity() < of.need && of.need - cover.capacity() < best.excess) {
      best.excess = of.need - cover.capacity();
      take(classes, of, cover.freest(), best);
    }
    if (of.floor < kInfinite) thresholds.push_back(std::move(of));
  }
  std::ranges::stable_sort(thresholds, [](const Threshold& a, const Threshold& b) { return a.floor < b.floor; });
  return thresholds;
}

Solution solve(const std::vector<Class>& classes, const Demand& demand) {
  Solution best;
  best.excess = demand.over;
  const std::int64_t most = several_ways(classes) ? kWaysNodes : kNodes;
  for (const Threshold& of : thresholds_of(classes, demand, best)) {
    if (of.floor >= best.time) break;
    CheapestCover cover(of.eligible);
    CheapestCover::Counts counts;
    std::int64_t nodes = most;
    const double before = best.time;
    const bool all = cover.solve(of.need, best.time, counts, nodes);
    if (best.time < before) {
      best.excess = 0;
      take(classes, of, counts, best);
    }
    // Of several thresholds, the lower ones need less.
    if (!all || of.floor < cover.relaxed(of.need)) best.floor = std::min(best.floor, of.floor);
  }
  best.floor = std::min(best.floor, best.time);
  return best;
}

Solution better(Solution a, Solution b) {
  a.floor = b.floor = std::min(a.floor, b.floor);
  return b.excess < a.excess || b.time < a.time ? b : a;
}

// What an operator frees at most, whatever is recomputed beside it.
struct Item {
  double time, freed;
  std::size_t place;
};

// By time for a byte, the same in the order of their values.
std::vector<Item> items_of(const StageInputs& inputs) {
  std::vector<Item> items;
  for (std::size_t k = 0; k < inputs.prices.size(); ++k) {
    const OperatorPrice& price = *inputs.prices[k];
    const double kept = inputs.ends_run[k] != 0 ? inputs.kept_output[k] : 0;
    const double freed = (price.stored - inputs.freed_output[k] - kept) * inputs.in_flight;
    if (freed > 0) items.push_back({price.forward, freed, k});
  }
  std::ranges::stable_sort(
      items, [](const Item& a, const Item& b) { return std::tie(a.time, a.freed) < std::tie(b.time, b.freed); });
  std::ranges::stable_sort(items, [](const Item& a, const Item& b) { return a.time * b.freed < b.time * a.freed; });
  return items;
}

// Nothing that frees `need` takes less: each operator as if all that it stores came free, and nothing came back.
double least_ms(const std::vector<Item>& items, double need) {
  double time = 0;
  for (const Item& item : items) {
    if (need <= 0) break;
    time += item.time * std::min(1.0, need / item.freed);
    need -= item.freed;
  }
  return time;
}

void recompute_further(const std::vector<Item>& items, const Range& operators, std::int32_t further,
                       RecomputeFlags& flags) {
  for (const Item& item : items) {
    if (further == 0) return;
    std::uint8_t& flag = flags[static_cast<std::size_t>(operators.begin) + item.place];
    if (flag != 0) continue;
    flag = 1;
    --further;
  }
}

constexpr std::size_t kLabels = 96;           // of one unit, for either state of its latest operator
constexpr std::size_t kRemembered = 1 << 14;  // units

struct Label {
  double time = 0, kept = 0;
  double run = 0;  // brought back by the run that the latest operator is in
  double peak = 0;
  std::vector<std::uint8_t> again;

  [[nodiscard]] bool beats(const Label& other) const {
    return time <= other.time && kept <= other.kept && run <= other.run && peak <= other.peak;
  }
};
using Labels = std::vector<Label>;

// Without what another beats; true where too many were left, and some of them given up: not the fastest, not the
// leanest.
bool thin(Labels& labels) {
  std::ranges::stable_sort(labels, [](const Label& a, const Label& b) {
    return std::tie(a.time, a.kept, a.run, a.peak) < std::tie(b.time, b.kept, b.run, b.peak);
  });
  Labels unbeaten;
  for (Label& label : labels) {
    const bool beaten = std::ranges::any_of(unbeaten, [&](const Label& other) { return other.beats(label); });
    if (!beaten) unbeaten.push_back(std::move(label));
  }
  labels = std::move(unbeaten);
  if (labels.size() <= kLabels) return false;
  const auto leanest = std::ranges::min_element(labels, [](const Label& a, const Label& b) { return a.kept < b.kept; });
  Labels some{*leanest};
  for (std::size_t i = 0; i < kLabels - 1; ++i) {
    some.push_back(std::move(labels[i * (labels.size() - 1) / (kLabels - 2)]));
  }
  labels = std::move(some);
  return true;
}

class UnitProgram {
 public:
  UnitProgram(const StageInputs& inputs, std::size_t begin, std::size_t end)
      : inputs_(inputs), begin_(begin), end_(end) {}

  RecomputePatterns run() {
    RecomputePatterns found;
    put(begin_, {}, false);
    put(begin_, {}, true);
    step();
    for (std::size_t k = begin_ + 1; k < end_; ++k) {
      for (const bool again : {false, true}) {
        for (const bool next : {false, true}) {
          for (const Label& label : now_[again ? 1 : 0]) put(k, passed(label, k - 1, again, next), next);
        }
      }
      step();
    }
    found.complete = complete_;
    collect(found.patterns);
    return found;
  }

 private:
  // What the operator at `k` leaves behind, where what follows it is recomputed or not.
  [[nodiscard]] Label passed(Label label, std::size_t k, bool again, bool next) const {
    const double stored = inputs_.prices[k]->stored;
    if (!again) {
      label.kept += stored - (next ? 0 : inputs_.freed_output[k]);
    } else if (next) {
      label.run += stored - inputs_.freed_output[k];
    } else {
      label.kept += inputs_.kept_output[k];
      label.peak = std::max(label.peak, label.run + inputs_.recompute_peak(k));
      label.run = 0;
    }
    return label;
  }

  void put(std::size_t k, Label label, bool again) {
    if (again) label.time += inputs_.prices[k]->forward;
    label.again.push_back(again ? 1 : 0);
    next_[again ? 1 : 0].push_back(std::move(label));
  }

  void step() {
    for (const int again : {0, 1}) {
      now_[again] = std::move(next_[again]);
      next_[again].clear();
      complete_ = !thin(now_[again]) && complete_;
    }
  }

  void collect(std::vector<RecomputePattern>& patterns) {
    double without = 0;
    for (std::size_t k = begin_; k < end_; ++k) without += inputs_.prices[k]->stored - inputs_.freed_output[k];
    Labels last;
    for (const bool again : {false, true}) {
      for (const Label& label : now_[again ? 1 : 0]) last.push_back(passed(label, end_ - 1, again, false));
    }
    std::ranges::stable_sort(last, [](const Label& a, const Label& b) {
      return std::tie(a.time, a.kept, a.peak) < std::tie(b.time, b.kept, b.peak);
    });
    for (Label& label : last) {
      const double freed = without - label.kept;
      if (freed <= 0) continue;
      const bool beaten = std::ranges::any_of(patterns, [&](const RecomputePattern& other) {
        return other.time <= label.time && other.freed >= freed && other.peak <= label.peak;
      });
      if (!beaten) patterns.push_back({label.time, freed, label.peak, std::move(label.again)});
    }
  }

  const StageInputs& inputs_;
  std::size_t begin_, end_;
  Labels now_[2];  // by whether the latest operator is recomputed
  Labels next_[2];
  bool complete_ = true;
};

}  // namespace

RecomputeChoice choose_recompute(const Calibration& calibration, const StageInputs& inputs, double limit_bytes,
                                 bool allowed, std::int32_t further, RecomputeFlags& flags, KnownPatterns* known) {
  set_flags({}, inputs.operators, flags);
  const double needed = stage_bytes(inputs, flags).total();
  RecomputeChoice choice;
  choice.excess_bytes = limit_bytes > 0 ? std::max(0.0, needed - limit_bytes) : 0;
  const bool over = choice.excess_bytes > 0;
  if (allowed && (over || further > 0)) {
    if (known != nullptr) known->forget_many();
    const std::vector<Item> items = items_of(inputs);
    if (over) {
      // With something of the last unit recomputed or not.
      const Classes classes(inputs, inputs.prices.size(), known);
      const Classes before(inputs, last_unit(inputs), known);
      const Solution solution = better(solve(before.all(), {needed - limit_bytes, released_first(inputs)}),
                                       solve(classes.all(), {needed - limit_bytes, 0}));
      if (solution.excess <= 0) {
        const double floor = classes.complete() ? solution.floor : least_ms(items, needed - limit_bytes);
        choice.least_ms = std::min(floor, solution.floor) * calibration.computation.value;
      }
      for (const std::size_t place : solution.places)
        flags[static_cast<std::size_t>(inputs.operators.begin) + place] = 1;
    }
    recompute_further(items, inputs.operators, further, flags);
    choice.recompute = ranges_of(flags, inputs.operators);
    const double now = stage_bytes(inputs, flags).total();
    choice.excess_bytes = limit_bytes > 0 ? std::max(0.0, now - limit_bytes) : 0;
  }
  // A rounding error is not an excess: bytes are whole.
  if (choice.excess_bytes < 0.5) choice.excess_bytes = 0;
  choice.fits = choice.excess_bytes == 0;
  return choice;
}

RecomputePatterns recompute_patterns(const StageInputs& inputs, std::size_t begin, std::size_t end) {
  return UnitProgram(inputs, begin, end).run();
}

const RecomputePatterns& KnownPatterns::of(const StageInputs& inputs, std::size_t begin, std::size_t end) {
  // The stage's last operator keeps and frees another output.
  Unit unit{{}, end == inputs.prices.size() ? inputs.freed_output.back() : -1};
  unit.first.assign(inputs.prices.begin() + static_cast<std::ptrdiff_t>(begin),
                    inputs.prices.begin() + static_cast<std::ptrdiff_t>(end));
  const auto found = known_.find(unit);
  if (found != known_.end()) return *found->second;
  auto patterns = std::make_unique<RecomputePatterns>(recompute_patterns(inputs, begin, end));
  return *known_.emplace(std::move(unit), std::move(patterns)).first->second;
}

void KnownPatterns::forget_many() {
  if (known_.size() >= kRemembered) known_.clear();
}

}  // namespace trimtab::tuner
