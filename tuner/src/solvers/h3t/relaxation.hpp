#pragma once

// Lower bounds of what a step still takes, by Lagrangian relaxation: every memory limit of a segment, the host's limit
// and the wait for parameters that are written back get a price, and with prices the program is a shortest path over 16
// states a layer. One set of prices gives, at every boundary and state, a bound that is linear in a label's numbers.
// Prices are found by a projected subgradient (Held, Wolfe and Crowder 1974, with Polyak's step).

#include <functional>

#include "solvers/h3t/step_program.hpp"

namespace trimtab::tuner::h3t {

// What a path has come to at a boundary.
struct Label {
  Ticks ticks = 0;
  Bytes level = 0;  // with the residents so far
  Bytes peak = 0;   // so far, with the residents so far; at least what the future comes to in any case
  Bytes hidden = 0;
  Ticks lag = 0;  // of parameters written back behind the optimizer, at the next layer's end
};

// Label `to` behind a transition of layer `layer`.
[[nodiscard]] inline Label extended(const StepProgram& program, std::int32_t layer, const Label& from,
                                    const Transition& by) {
  Label to;
  to.ticks = from.ticks + by.ticks;
  to.peak = std::max(from.peak, from.level + by.peak) + by.resident;
  to.level = from.level + by.kept + by.resident;
  to.hidden = from.hidden + by.host;
  to.lag = from.lag + by.write_back;
  if (layer + 1 < program.layers()) to.lag = std::max<Ticks>(to.lag - program.optimizer(layer + 1), 0);
  return to;
}

// At the start, by state; there is no peak yet but the level itself.
[[nodiscard]] inline Label label_of(const Start& start) {
  return {start.ticks, start.level, start.level, 0, 0};
}

struct Prices {
  std::vector<double> memory;  // ns per byte, by layer
  double hidden = 0;           // ns per byte
  std::vector<double> lag;     // by layer i, the share of the wait after layer i-1 that is not overlapped; 0 to 1
};

class Relaxation {
 public:
  Relaxation(const StepProgram& program, Prices prices);

  // No completion that fits takes less in all, the optimizer's own time included. REQUIRES: peak of the label is at
  // least its level plus the boundary's future peak, or what it really was.
  [[nodiscard]] double bound(std::int32_t boundary, std::int32_t state, const Label& label) const {
    const Weights& weights = weights_[boundary];
    return static_cast<double>(label.ticks) + weights.level * static_cast<double>(label.level) +
           weights.peak * static_cast<double>(label.peak) + prices_.hidden * static_cast<double>(label.hidden) +
           weights.lag * static_cast<double>(label.lag) + rest_[boundary][state];
  }
  [[nodiscard]] double bound() const { return bound_; }  // of the whole step
  [[nodiscard]] const Prices& prices() const { return prices_; }

  // The path that the bound comes from: transitions by layer. Its memory may not fit.
  [[nodiscard]] std::vector<const Transition*> path() const;
  [[nodiscard]] std::int32_t start() const { return start_; }

 private:
  struct Weights {
    double level = 0, peak = 0, lag = 0;
  };
  [[nodiscard]] double cost(std::int32_t layer, const Transition& of) const;
  void solve();

  const StepProgram* program_;
  Prices prices_;
  double total_ = 0;  // of all memory prices
  std::vector<Weights> weights_;
  std::vector<std::array<double, kStates>> rest_;
  double bound_ = 0;
  std::int32_t start_ = 0;
};

// The best relaxations found, the best first; and the fastest of their paths that fits.
struct RelaxedStep {
  std::vector<Relaxation> bounds;
  Switching path;  // empty where none fits
  Ticks path_ticks = 0;
  std::size_t paths = 0;  // that were looked for
};

// `known_ticks`: what some plan takes, in all. Ends early when `stop` says so.
[[nodiscard]] RelaxedStep relax(const StepProgram& program, Ticks known_ticks, std::int32_t rounds,
                                const std::function<bool()>& stop);

// All of a step's time for a label behind the last layer.
[[nodiscard]] inline Ticks whole_ticks(const StepProgram& program, const Label& end) {
  return end.ticks + end.lag + program.optimizer_sum();
}

}  // namespace trimtab::tuner::h3t
