#pragma once

// Where the operators of a model come again in the same order, so that a stage there is like one elsewhere. Plain
// values.

#include <cstdint>
#include <vector>

#include "papers/aceso/tables.hpp"

namespace trimtab::tuner::aceso {

struct Repetition {                     // by operator
  std::vector<std::int32_t> canonical;  // a stage inside one region is like the one that begins here
  std::vector<std::int32_t> region_end;
  std::vector<std::int32_t> period;
};
[[nodiscard]] Repetition find_repetition(const Tables& tables);

}  // namespace trimtab::tuner::aceso
