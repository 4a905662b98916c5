#include "needless_switches.hpp"

#include <array>

namespace trimtab::tuner::h3t {
namespace {

// In the order in which they are tried.
constexpr std::array<bool LayerSwitches::*, 4> kSwitches{&LayerSwitches::lazy_prefetch, &LayerSwitches::offload_hidden,
                                                         &LayerSwitches::partition_parameters,
                                                         &LayerSwitches::rematerialize};

}  // namespace

Solution without_needless_switches(const Problem& problem, Solution from, const std::function<bool()>& stop) {
  SegmentSimulator simulator(problem.layers, problem.fabric);
  Solution best = std::move(from);
  Switching tried = best.switches;
  for (bool LayerSwitches::*const which : kSwitches) {
    for (LayerSwitches& of : tried) {
      if (stop && stop()) return best;
      if (!(of.*which)) continue;
      of.*which = false;
      const bool valid = of.valid();
      const StepOutcome outcome = valid ? outcome_of(problem, simulator, tried) : best.outcome;
      if (valid && problem.fits(outcome) && outcome.runtime <= best.outcome.runtime) {
        best = {tried, outcome};
      } else {
        of.*which = true;
      }
    }
  }
  return best;
}

}  // namespace trimtab::tuner::h3t
