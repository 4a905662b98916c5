#include "label_front.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

namespace trimtab::tuner::h3t {
namespace {

// How many of the kept labels with more numbers than three a new one is compared with; more may be kept than needed.
constexpr std::size_t kCompared = 256;

// Of labels with ascending levels whose peak and lag say nothing of their own: the least hidden bytes by time.
class Staircase {
 public:
  [[nodiscard]] bool covers(const Label& label) const {
    const auto after = std::upper_bound(steps_.begin(), steps_.end(), label.ticks,
                                        [](Ticks ticks, const StairStep& step) { return ticks < step.ticks; });
    return after != steps_.begin() && std::prev(after)->hidden <= label.hidden;
  }
  void insert(const Label& label) {
    const auto at = std::lower_bound(steps_.begin(), steps_.end(), label.ticks,
                                     [](const StairStep& step, Ticks ticks) { return step.ticks < ticks; });
    auto end = at;
    while (end != steps_.end() && end->hidden >= label.hidden) ++end;
    if (end == at) {
      steps_.insert(at, {label.ticks, label.hidden});
      return;
    }
    *at = {label.ticks, label.hidden};
    steps_.erase(at + 1, end);
  }

 private:
  struct StairStep {
    Ticks ticks;
    Bytes hidden;
  };
  std::vector<StairStep> steps_;  // ascending in ticks, descending in hidden bytes
};

}  // namespace

void LabelFront::filter(Bytes future_peak) {
  std::sort(labels_.begin(), labels_.end(), [](const Reached& a, const Reached& b) {
    return std::tie(a.label.level, a.label.ticks, a.label.peak, a.label.hidden, a.label.lag, a.step.parent,
                    a.step.code) < std::tie(b.label.level, b.label.ticks, b.label.peak, b.label.hidden, b.label.lag,
                                            b.step.parent, b.step.code);
  });
  Staircase plain;
  std::vector<Label> others;
  std::size_t kept = 0;
  for (const Reached& reached : labels_) {
    const Label& label = reached.label;
    if (plain.covers(label)) continue;
    const bool is_plain = label.lag == 0 && label.peak <= label.level + future_peak;
    const std::size_t from = others.size() > kCompared ? others.size() - kCompared : 0;
    const bool dominated = std::any_of(others.begin() + static_cast<std::ptrdiff_t>(from), others.end(),
                                       [&label](const Label& other) { return dominates(other, label); });
    if (dominated) continue;
    if (is_plain) {
      plain.insert(label);
    } else {
      others.push_back(label);
    }
    labels_[kept++] = reached;
  }
  labels_.resize(kept);
  filtered_ = kept;
}

}  // namespace trimtab::tuner::h3t
