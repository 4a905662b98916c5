#include "strategies/unified/progress.hpp"

#include <utility>

#include "strategies/aceso/bottleneck.hpp"

namespace trimtab::tuner::unified {

void Progress::record(std::string what, double before, Candidate now) {
  SearchStep step;
  step.evaluations = run_.evaluator().evaluations();
  step.stages = static_cast<std::int32_t>(now.stages.size());
  const Load load = load_of(run_.evaluator(), best_ ? *best_ : now);
  step.bottleneck = bottleneck_text(load, load.ranking.front());
  step.primitive = std::move(what);
  step.before_ms = before;
  step.after_ms = best_ms();
  run_.step(std::move(step));
  best_ = std::move(now);
}

void Progress::record(const std::string& what, double before) {
  if (best_ms() >= before) return;
  std::optional<Candidate> now = candidate_of(run_.shortlist().plans().front(), run_.space());
  if (now) record(what, before, std::move(*now));
}

void Progress::remember_best() {
  if (!run_.shortlist().empty()) best_ = candidate_of(run_.shortlist().plans().front(), run_.space());
}

}  // namespace trimtab::tuner::unified
