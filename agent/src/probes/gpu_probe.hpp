#pragma once

// What NVML's latest samples say of the GPUs' speed: their clocks, and why those are held down. Asks no driver. Pure.

#include <vector>

#include "host/sample.hpp"
#include "probes/cpu_probe.hpp"

namespace trimtab::agent {

// Of each GPU that works: `ms` is a million cycles of its SMs, `work` "clock". An idle GPU's clock says nothing and is
// left out.
[[nodiscard]] std::vector<DeviceSpeed> gpu_speeds(const host::Samples& samples);

}  // namespace trimtab::agent
