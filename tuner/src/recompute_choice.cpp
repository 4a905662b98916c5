#include "recompute_choice.hpp"

#include <algorithm>
#include <compare>
#include <limits>
#include <tuple>
#include <utility>

namespace trimtab::tuner {
namespace {

constexpr int kNodes = 20000;
constexpr std::size_t kFewClasses = 32;

// Operators that cost and free the same.
struct Class {
  double time = 0;
  double freed = 0;   // bytes, over all microbatches in flight
  double stored = 0;  // bytes that come back while one is recomputed
  std::vector<std::int32_t> operators;

  [[nodiscard]] double capacity() const { return freed * static_cast<double>(operators.size()); }
};

// Least time that frees at least `need`, over classes sorted by time per byte.
class Cover {
 public:
  explicit Cover(const std::vector<const Class*>& classes)
      : classes_(classes), counts_(classes.size(), 0), capacity_after_(classes.size() + 1, 0.0) {
    for (std::size_t c = classes.size(); c-- > 0;) {
      capacity_after_[c] = capacity_after_[c + 1] + classes[c]->capacity();
    }
  }

  // Improves `best` and `best_counts` where it can. Returns a time that no choice over these classes is below.
  double solve(double need, double& best, std::vector<std::int32_t>& best_counts) {
    best_ = &best;
    best_counts_ = &best_counts;
    visit(0, need, 0);
    return nodes_ > kNodes ? relaxed(0, need) : best;
  }
  [[nodiscard]] double capacity() const { return capacity_after_[0]; }

 private:
  // Time that a fractional choice of the classes from `c` on would need: never more than a whole one.
  [[nodiscard]] double relaxed(std::size_t c, double need) const {
    double time = 0;
    for (; c < classes_.size() && need > 0; ++c) {
      const double freed = std::min(need, classes_[c]->capacity());
      time += classes_[c]->time * freed / classes_[c]->freed;
      need -= freed;
    }
    return time;
  }

  void visit(std::size_t c, double need, double time) {
    if (need <= 0) {
      if (time < *best_) {
        *best_ = time;
        *best_counts_ = counts_;
      }
      return;
    }
    if (c == classes_.size() || capacity_after_[c] < need || ++nodes_ > kNodes) return;
    if (time + relaxed(c, need) >= *best_) return;
    const Class& cls = *classes_[c];
    const auto available = static_cast<std::int32_t>(cls.operators.size());
    const double wanted = need / cls.freed;
    std::int32_t most = available;
    if (wanted < available) {
      most = static_cast<std::int32_t>(wanted);
      while (most < available && cls.freed * most < need) ++most;
    }
    for (counts_[c] = most; counts_[c] >= 0; --counts_[c]) {
      visit(c + 1, need - cls.freed * counts_[c], time + cls.time * counts_[c]);
    }
    counts_[c] = 0;
  }

  const std::vector<const Class*>& classes_;
  std::vector<std::int32_t> counts_;
  std::vector<double> capacity_after_;
  int nodes_ = 0;
  double* best_ = nullptr;
  std::vector<std::int32_t>* best_counts_ = nullptr;
};

// What an operator costs and frees.
struct Item {
  double time, freed, stored;
  std::int32_t i;
  auto operator<=>(const Item&) const = default;
  [[nodiscard]] bool is_of(const Class& cls) const {
    return time == cls.time && freed == cls.freed && stored == cls.stored;
  }
};

std::vector<Item> items_of(const StageInputs& inputs) {
  const double scale = inputs.in_flight;
  std::vector<Item> items;
  items.reserve(inputs.prices.size());
  for (std::size_t k = 0; k < inputs.prices.size(); ++k) {
    const OperatorPrice& price = *inputs.prices[k];
    const double freed = (price.stored - inputs.kept_output[k]) * scale;
    if (freed <= 0) continue;
    items.push_back(
        {price.forward, freed, inputs.recompute_peak(k), inputs.operators.begin + static_cast<std::int32_t>(k)});
  }
  return items;
}

// Layers that repeat have few classes: looked for one by one. False where there are many.
bool add_to_few(const std::vector<Item>& items, std::vector<Class>& classes) {
  for (const Item& item : items) {
    auto found = std::find_if(classes.begin(), classes.end(), [&](const Class& cls) { return item.is_of(cls); });
    if (found == classes.end()) {
      if (classes.size() == kFewClasses) return false;
      found = classes.insert(found, {item.time, item.freed, item.stored, {}});
    }
    found->operators.push_back(item.i);
  }
  std::sort(classes.begin(), classes.end(), [](const Class& a, const Class& b) {
    return std::tie(a.time, a.freed, a.stored) < std::tie(b.time, b.freed, b.stored);
  });
  return true;
}

void add_sorted(std::vector<Item> items, std::vector<Class>& classes) {
  std::sort(items.begin(), items.end());
  for (const Item& item : items) {
    if (classes.empty() || !item.is_of(classes.back())) classes.push_back({item.time, item.freed, item.stored, {}});
    classes.back().operators.push_back(item.i);
  }
}

// By time for a byte, the same in the order of their values.
std::vector<Class> classes_of(const StageInputs& inputs) {
  std::vector<Item> items = items_of(inputs);
  std::vector<Class> classes;
  if (!add_to_few(items, classes)) {
    classes.clear();
    add_sorted(std::move(items), classes);
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const Class& a, const Class& b) { return a.time * b.freed < b.time * a.freed; });
  return classes;
}

// The choice of one threshold on what a recomputed operator may bring back.
struct Solution {
  double time = std::numeric_limits<double>::infinity();
  double floor = std::numeric_limits<double>::infinity();  // of the time
  double excess = std::numeric_limits<double>::infinity();
  std::vector<std::int32_t> operators;
};

std::vector<const Class*> up_to(const std::vector<Class>& classes, double peak) {
  std::vector<const Class*> chosen;
  for (const Class& cls : classes) {
    if (cls.stored <= peak) chosen.push_back(&cls);
  }
  return chosen;
}

void take_counts(const std::vector<const Class*>& classes, const std::vector<std::int32_t>& counts, Solution& out) {
  out.operators.clear();
  for (std::size_t c = 0; c < counts.size(); ++c) {
    // The first ones: they are recomputed last in the backward pass, beside the all-reduces of those after them.
    const std::vector<std::int32_t>& of = classes[c]->operators;
    out.operators.insert(out.operators.end(), of.begin(), of.begin() + counts[c]);
  }
}

// `over` is what the stage needs above its limit without recompute.
Solution solve(const std::vector<Class>& classes, double over) {
  Solution best;
  best.excess = over;
  std::vector<double> peaks;
  for (const Class& cls : classes) peaks.push_back(cls.stored);
  std::sort(peaks.begin(), peaks.end());
  peaks.erase(std::unique(peaks.begin(), peaks.end()), peaks.end());
  for (const double peak : peaks) {
    const std::vector<const Class*> eligible = up_to(classes, peak);
    Cover cover(eligible);
    const double need = over + peak;
    if (cover.capacity() < need) {
      if (best.excess <= 0 || need - cover.capacity() >= best.excess) continue;
      std::vector<std::int32_t> all;
      for (const Class* cls : eligible) all.push_back(static_cast<std::int32_t>(cls->operators.size()));
      best.excess = need - cover.capacity();
      take_counts(eligible, all, best);
      continue;
    }
    std::vector<std::int32_t> counts;
    const double before = best.time;
    best.floor = std::min(best.floor, cover.solve(need, best.time, counts));
    if (best.time < before) {
      best.excess = 0;
      take_counts(eligible, counts, best);
    }
  }
  return best;
}

void recompute_further(const std::vector<Class>& classes, std::int32_t further, RecomputeFlags& flags) {
  for (const Class& cls : classes) {
    for (const std::int32_t i : cls.operators) {
      if (further == 0) return;
      if (flags[i] != 0) continue;
      flags[i] = 1;
      --further;
    }
  }
}

}  // namespace

void set_flags(const std::vector<Range>& ranges, const Range& inside, RecomputeFlags& flags) {
  std::fill(flags.begin() + inside.begin, flags.begin() + inside.end, std::uint8_t{0});
  for (const Range& range : ranges) {
    std::fill(flags.begin() + range.begin, flags.begin() + range.end, std::uint8_t{1});
  }
}

std::vector<Range> ranges_of(const RecomputeFlags& flags, const Range& inside) {
  std::vector<Range> ranges;
  for (std::int32_t i = inside.begin; i < inside.end; ++i) {
    if (flags[i] == 0) continue;
    if (!ranges.empty() && ranges.back().end == i) {
      ++ranges.back().end;
    } else {
      ranges.push_back({i, i + 1});
    }
  }
  return ranges;
}

RecomputeChoice choose_recompute(const Calibration& calibration, const StageInputs& inputs, double limit_bytes,
                                 bool allowed, std::int32_t further, RecomputeFlags& flags) {
  set_flags({}, inputs.operators, flags);
  const double needed = stage_bytes(inputs, flags).total();
  RecomputeChoice choice;
  choice.excess_bytes = limit_bytes > 0 ? std::max(0.0, needed - limit_bytes) : 0;
  const bool over = choice.excess_bytes > 0;
  if (allowed && (over || further > 0)) {
    const std::vector<Class> classes = classes_of(inputs);
    Solution solution;
    if (over) {
      solution = solve(classes, needed - limit_bytes);
      if (solution.excess <= 0) choice.least_ms = solution.floor * calibration.computation.value;
    }
    for (const std::int32_t i : solution.operators) flags[i] = 1;
    recompute_further(classes, further, flags);
    choice.recompute = ranges_of(flags, inputs.operators);
    const double now = stage_bytes(inputs, flags).total();
    choice.excess_bytes = limit_bytes > 0 ? std::max(0.0, now - limit_bytes) : 0;
  }
  // A rounding error is not an excess: bytes are whole.
  if (choice.excess_bytes < 0.5) choice.excess_bytes = 0;
  choice.fits = choice.excess_bytes == 0;
  return choice;
}

}  // namespace trimtab::tuner
