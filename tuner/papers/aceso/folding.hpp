#pragma once

// A model with the middle of its repetitions left out: where operators come again in the same order, sums over them
// grow by the same amount each time, so a table needs only a few of the periods. A place stands for an operator, or for
// all the operators of the middle that are alike. Immutable once built; any thread.

#include <cstdint>
#include <vector>

#include "papers/aceso/repetition.hpp"

namespace trimtab::tuner::aceso {

class Folding {
 public:
  // Of a region's places: periods 0, 1 (for all of the middle) and 2, and from there on every operator.
  struct Region {
    std::int32_t base = 0;     // its first place
    std::int32_t period = 1;   // operators
    std::int32_t skipped = 0;  // periods that have no places of their own
    [[nodiscard]] std::int32_t middle() const { return base + period; }
    [[nodiscard]] std::int32_t tail() const { return base + 2 * period; }
  };
  struct Place {
    std::int32_t at = 0;
    std::int32_t skipped = 0;  // periods left out before the operator that sums before `at` do not count
    std::int32_t region = 0;
  };
  struct Range {
    std::int32_t begin = 0, end = 0;
  };

  // Of every operator for itself where not `folded`.
  Folding(const Repetition& repetition, bool folded);

  [[nodiscard]] std::int32_t places() const { return static_cast<std::int32_t>(operators_.size()); }
  [[nodiscard]] std::int32_t operator_at(std::int32_t place) const { return operators_[place]; }
  [[nodiscard]] const std::vector<Region>& regions() const { return regions_; }
  // One past the last operator included.
  [[nodiscard]] const Place& place(std::int32_t op) const { return places_[op]; }
  // Places of the same values as the operators [begin, end), which are not empty.
  [[nodiscard]] Range places_of(std::int32_t begin, std::int32_t end) const;

 private:
  void add_region(std::int32_t begin, std::int32_t end, std::int32_t period, bool folded);

  std::vector<Region> regions_;
  std::vector<Place> places_;            // by operator, and one past the last
  std::vector<std::int32_t> operators_;  // by place
};

}  // namespace trimtab::tuner::aceso
