#pragma once

// The numbers that a job's steps have where somebody else says them: a training process to its agent, an agent to the
// coordinator. A step of a microsecond would take nine years to come to the largest; sums of some of them do not
// overflow. Pure; any thread.

#include <cstdint>

namespace trimtab {

inline constexpr std::int64_t kLargestStep = std::int64_t{1} << 48;

[[nodiscard]] constexpr bool is_step_number(std::int64_t step) {
  return step >= 0 && step <= kLargestStep;
}

}  // namespace trimtab
