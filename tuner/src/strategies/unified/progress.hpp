#pragma once

// The trace of `unified`: which part of the search made the best plan better, and what held back the one before it.

#include <optional>
#include <string>
#include <utility>

#include "search/strategy.hpp"
#include "strategies/aceso/bottleneck.hpp"
#include "strategies/candidates.hpp"

namespace trimtab::tuner::unified {

class Progress {
 public:
  explicit Progress(SearchRun& run) : run_(run) {}

  [[nodiscard]] double best_ms() const { return run_.shortlist().best_ms(); }
  // The best plan so far; none where no candidate can express it.
  [[nodiscard]] const std::optional<Candidate>& best() const { return best_; }

  // The best plan was `before`, and is `now`.
  void record(std::string what, double before, Candidate now) {
    const Load load = load_of(run_.evaluator(), best_ ? *best_ : now);
    run_.step(step_of(run_, now.stages.size(), bottleneck_text(load, load.ranking.front()), std::move(what),
                      {true, 0, before}, {true, 0, best_ms()}));
    best_ = std::move(now);
  }
  // The same after a part of the search that keeps no trace of its own, if it found anything better.
  void record(const std::string& what, double before) {
    if (best_ms() >= before) return;
    std::optional<Candidate> now = candidate_of(run_.shortlist().plans().front(), run_.space());
    if (now) record(what, before, std::move(*now));
  }

  template <typename Part>
  void traced(const char* what, Part&& part) {
    const double before = best_ms();
    part();
    record(what, before);
  }

 private:
  SearchRun& run_;
  std::optional<Candidate> best_;
};

}  // namespace trimtab::tuner::unified
