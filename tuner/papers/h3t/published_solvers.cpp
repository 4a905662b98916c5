#include "papers/h3t/published_solvers.hpp"

#include "base/random.hpp"

namespace trimtab::tuner::h3t {
namespace {

bool stops(const std::function<bool()>& stop) {
  return stop && stop();
}

// Keeps the fastest of what fits.
class Fastest {
 public:
  explicit Fastest(const Problem& problem) : problem_(problem), simulator_(problem.layers, problem.fabric) {}

  void consider(const Switching& switches) {
    const StepOutcome outcome = outcome_of(problem_, simulator_, switches);
    if (!problem_.fits(outcome) || (best_ && best_->outcome.runtime <= outcome.runtime)) return;
    best_ = Solution{switches, outcome};
  }
  [[nodiscard]] std::optional<Solution> take() { return std::move(best_); }

 private:
  const Problem& problem_;
  SegmentSimulator simulator_;
  std::optional<Solution> best_;
};

}  // namespace

std::optional<Solution> solve_by_sampling(const Problem& problem, std::uint64_t seed, std::int32_t samples,
                                          const std::function<bool()>& stop) {
  Random random(seed);
  Fastest fastest(problem);
  Switching switches(problem.layers.size());
  for (std::int32_t sample = 0; sample < samples && !stops(stop); ++sample) {
    for (LayerSwitches& of : switches) of = all_combinations()[random.below(kCombinations)];
    fastest.consider(switches);
  }
  return fastest.take();
}

std::optional<Solution> solve_greedily(const Problem& problem, const std::function<bool()>& stop) {
  Fastest fastest(problem);
  const std::size_t count = problem.layers.size();
  fastest.consider(Switching(count, kAllOn));
  for (std::size_t flexible = 1; flexible <= count && !stops(stop); ++flexible) {
    const std::size_t distance = count / flexible;
    for (const LayerSwitches& combination : all_combinations()) {
      Switching switches(count, kAllOn);
      for (std::size_t k = 0; k < flexible; ++k) switches[k * distance] = combination;
      fastest.consider(switches);
    }
  }
  return fastest.take();
}

std::optional<Solution> best_uniform(const Problem& problem) {
  Fastest fastest(problem);
  for (const LayerSwitches& combination : all_combinations()) {
    fastest.consider(Switching(problem.layers.size(), combination));
  }
  return fastest.take();
}

}  // namespace trimtab::tuner::h3t
