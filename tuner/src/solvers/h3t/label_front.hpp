#pragma once

// The labels of one boundary and state, without dominated ones. Plain state.

#include <cstdint>
#include <vector>

#include "solvers/h3t/relaxation.hpp"

namespace trimtab::tuner::h3t {

struct Step {  // how a label came about
  std::uint32_t parent = 0;
  std::uint8_t code = 0;  // of the layer's switches
};

struct Reached {
  Label label;
  Step step;
};

// Whether every completion of `other` is matched by `label` with the same one: no later, with no more memory. What is
// written back in the end takes max(lag - K, M) for some K and M >= 0, which is why times plus lags are compared.
[[nodiscard]] inline bool dominates(const Label& label, const Label& other) {
  return label.ticks <= other.ticks && label.level <= other.level && label.peak <= other.peak &&
         label.hidden <= other.hidden && label.ticks + label.lag <= other.ticks + other.lag;
}

class LabelFront {
 public:
  void clear() {
    labels_.clear();
    filtered_ = 0;
  }
  // May keep dominated labels until filter().
  void add(const Reached& reached, Bytes future_peak) {
    labels_.push_back(reached);
    if (labels_.size() > 2 * filtered_ + kPending) filter(future_peak);
  }
  // `future_peak`: above a label's level, what any completion comes to.
  void filter(Bytes future_peak);

  [[nodiscard]] std::vector<Reached>& labels() { return labels_; }
  [[nodiscard]] const std::vector<Reached>& labels() const { return labels_; }

 private:
  static constexpr std::size_t kPending = 1 << 14;
  std::vector<Reached> labels_;
  std::size_t filtered_ = 0;
};

}  // namespace trimtab::tuner::h3t
