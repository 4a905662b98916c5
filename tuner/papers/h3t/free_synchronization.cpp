#include "papers/h3t/free_synchronization.hpp"

namespace trimtab::tuner::h3t {

Solution freed(const Problem& problem, Solution from, const std::function<bool()>& stop) {
  SegmentSimulator simulator(problem.layers, problem.fabric);
  Solution best = std::move(from);
  // Layers since the last gain: once around without one is the end.
  std::size_t unchanged = 0;
  for (std::size_t i = 0; unchanged < best.switches.size(); i = (i + 1) % best.switches.size()) {
    if (stop && stop()) return best;
    ++unchanged;
    Switching tried = best.switches;
    for (const LayerSwitches& combination : all_combinations()) {
      if (!is_within(combination, problem.allowed)) continue;
      tried[i] = combination;
      const StepOutcome outcome = outcome_of(problem, simulator, tried);
      if (!problem.fits(outcome) || outcome.runtime >= best.outcome.runtime) continue;
      best = {tried, outcome};
      unchanged = 0;
    }
  }
  return best;
}

}  // namespace trimtab::tuner::h3t
