#pragma once

// What a rank of a job may take of its device's memory: what is planned with, told to ranks and simulated. Pure.

#include <algorithm>

#include "base/units.hpp"
#include "schema/job.hpp"

namespace trimtab {

// The job's limit, where the device has more. `device` is 0 where nobody knows what it has.
[[nodiscard]] inline Bytes device_memory(const Job& job, Bytes device) {
  if (job.memory_limit == 0) return device;
  return device > 0 ? std::min(job.memory_limit, device) : job.memory_limit;
}

}  // namespace trimtab
