#pragma once

// The trace of `unified`: which part of the search made the best plan better, and what held back the one before it.

#include <optional>
#include <string>

#include "search/strategy.hpp"

namespace trimtab::tuner::unified {

class Progress {
 public:
  explicit Progress(SearchRun& run) : run_(run) {}

  [[nodiscard]] double best_ms() const { return run_.shortlist().best_ms(); }
  // The best plan so far; none where no candidate can express it.
  [[nodiscard]] const std::optional<Candidate>& best() const { return best_; }

  // The best plan was `before`, and is `now`.
  void record(std::string what, double before, Candidate now);
  // The same after a part of the search that keeps no trace of its own, if it found anything better.
  void record(const std::string& what, double before);
  // After a part that has left its own trace.
  void remember_best();

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
