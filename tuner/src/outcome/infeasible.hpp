#pragma once

// Why no plan was found, in words: nothing fits, no plan uses every device, or the search was ended too early to say.

#include <string>

#include "search/strategy.hpp"

namespace trimtab::tuner {

// The plan of the space that is least over its memory, which stage is over, by how much, and which smallest
// changes would make it fit (remedies.hpp). That nothing fits is said only of a search that ended by itself.
[[nodiscard]] std::string explain_infeasible(SearchRun& run);

}  // namespace trimtab::tuner
