#include "solvers/h3t/label_front.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

namespace trimtab::tuner::h3t {
namespace {

// How many of the kept labels with more numbers than three a new one is compared with; more may be kept than needed.
constexpr std::size_t kCompared = 256;

// Of labels with ascending levels whose peak and lag say nothing of their own: the least hidden bytes by time.
class Staircase {
 public:
  [[nodiscard]] bool covers(const Label& label) const {
    const auto after = steps_.upper_bound(label.ticks);
    return after != steps_.begin() && std::prev(after)->second <= label.hidden;
  }
  // REQUIRES: !covers(label).
  void insert(const Label& label) {
    const auto begin = steps_.lower_bound(label.ticks);
    auto end = begin;
    while (end != steps_.end() && end->second >= label.hidden) ++end;
    steps_.erase(begin, end);
    steps_.emplace_hint(end, label.ticks, label.hidden);
  }

 private:
  std::map<Ticks, Bytes> steps_;  // hidden bytes by time, ascending in time and descending in bytes
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
