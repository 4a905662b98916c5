#pragma once

// Ranks' kernels beside the same kernels of other ranks, and beside what they took at first: whatever a rank has to do,
// a kernel of one signature is one piece of work. Pure.

#include <cstdint>
#include <optional>
#include <vector>

#include "card/evidence.hpp"
#include "card/stretches.hpp"

namespace trimtab::coordinator {

struct SlowDevice {
  std::size_t place = 0;  // of the ranks that are compared
  Estimate longer;        // logarithms
  double confidence = 0;  // that its kernels take longer at all, by more than devices of one kind differ
  bool by_past = false;   // than at first, beside what the others' have changed by; else than the others' do now
};

// The slowest, where it is clearly so: by 4.5 %, surely 2.5 %, and with a confidence of 95 %. `ranks`: of one pipeline
// stage. Of a rank that is alone there its past tells, beside all others'.
[[nodiscard]] std::optional<SlowDevice> slow_device(const JobEvidence& job, const std::vector<std::int32_t>& ranks);

}  // namespace trimtab::coordinator
