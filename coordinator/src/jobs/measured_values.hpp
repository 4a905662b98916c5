#pragma once

// How many values stored costs consist of.

#include <cstdint>

namespace trimtab::coordinator {

struct MeasuredValues {
  std::uint64_t all = 0;
  std::uint64_t disturbed = 0;  // of them, while others used the machine (schema/cost_source.hpp)
};

}  // namespace trimtab::coordinator
