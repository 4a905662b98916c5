#pragma once

// Runs a kernel chain on the present device.

#include "kernel_chain.hpp"

namespace trimtab::bench::cuda {

[[nodiscard]] Result<ChainTimes> run_chain(const ChainRequest& request, std::int32_t gpu);

}  // namespace trimtab::bench::cuda
