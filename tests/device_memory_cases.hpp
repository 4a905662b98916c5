#pragma once

// What a rank may take of its device, for all who must agree: who plans, who tells ranks, who simulates.

#include "base/units.hpp"

namespace trimtab::test {

struct DeviceMemoryCase {
  Bytes limit;   // the job's
  Bytes device;  // has
  Bytes memory;  // that a rank may take
};
inline constexpr DeviceMemoryCase kDeviceMemoryCases[] = {
    {0, 1'500'000, 1'500'000}, {1'400'000, 1'500'000, 1'400'000}, {9'000'000, 1'500'000, 1'500'000}};

}  // namespace trimtab::test
