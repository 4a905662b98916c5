#include "native/stage/recompute_patterns.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trimtab::tuner {
namespace {

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
  std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) {
    return std::tie(a.time, a.kept, a.run, a.peak) < std::tie(b.time, b.kept, b.run, b.peak);
  });
  Labels unbeaten;
  for (Label& label : labels) {
    const bool beaten =
        std::any_of(unbeaten.begin(), unbeaten.end(), [&](const Label& other) { return other.beats(label); });
    if (!beaten) unbeaten.push_back(std::move(label));
  }
  labels = std::move(unbeaten);
  if (labels.size() <= kLabels) return false;
  const auto leanest =
      std::min_element(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.kept < b.kept; });
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
    std::stable_sort(last.begin(), last.end(), [](const Label& a, const Label& b) {
      return std::tie(a.time, a.kept, a.peak) < std::tie(b.time, b.kept, b.peak);
    });
    for (Label& label : last) {
      const double freed = without - label.kept;
      if (freed <= 0) continue;
      const bool beaten = std::any_of(patterns.begin(), patterns.end(), [&](const RecomputePattern& other) {
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
