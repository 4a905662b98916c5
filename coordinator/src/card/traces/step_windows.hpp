#pragma once

// From when to when each step of a traced rank ran, on the host and on its device. Pure.

#include <cstdint>
#include <vector>

#include "schema/traces/traced_rank.hpp"

namespace trimtab::coordinator {

// A device runs behind its host. Its step begins with the first kernel that the host handed out in the step, and ends
// where the next step's begins, or with its own last kernel where none follows. Where no kernel's launch is known the
// device's steps are the host's.
struct StepWindow {
  std::int64_t number = 0;
  std::int64_t wall_ns = 0;  // the host's step
  std::int64_t host_begin_ns = 0;
  std::int64_t host_end_ns = 0;
  // Where its time is shared out: of the device, else of the host.
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
};

// Upwards, apart from each other. A rank that marks no steps has one, numbered 0, from its first work to its last.
// Steps without any work on their device are left out.
[[nodiscard]] std::vector<StepWindow> step_windows(const TracedRank& rank);

}  // namespace trimtab::coordinator
