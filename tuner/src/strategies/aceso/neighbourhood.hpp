#pragma once

// Exhaustive descent over a candidate's near relatives: the polish at the end of a search.

#include "search/strategy.hpp"

namespace trimtab::tuner {

struct Reach {
  std::int32_t shift = 3;    // positions that one cut moves by at most
  bool pairs = true;         // two cuts at once, by one position each
  bool devices = true;       // every move of devices between two stages
  bool microbatches = true;  // every other microbatch
};

// Moves to the best relative until none is better. Every relative has been priced then.
[[nodiscard]] Scored descend(SearchRun& run, Scored from, const Reach& reach);

}  // namespace trimtab::tuner
