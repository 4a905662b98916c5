#pragma once

// What the process holds beside what its tensors need: the allocator's free blocks, and what CUDA and NCCL allocate.
// docs/estimates.md, section "Memory", has the sources. Pure functions, in bytes.

#include <cstdint>

#include "estimates/constants.hpp"
#include "estimates/hardware.hpp"
#include "estimates/model_shape.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

// Of a stage whose tensors need `allocated` at most: what the allocator would like to hold.
[[nodiscard]] double held_bytes(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                                const Constants& constants, std::int32_t stage, double allocated);
// And what it is expected to hold. Where the device's memory is short, it gives all free blocks back, and then holds
// something between what the tensors need and the limit.
[[nodiscard]] double reserved_bytes(const Machine& machine, const UniformPlan& plan, double allocated, double held);

// The CUDA context with its kernels, and NCCL's buffers of each group of devices.
[[nodiscard]] double process_bytes(const UniformPlan& plan);

// That a process fits which would like to have `needed`.
[[nodiscard]] double chance_to_fit(const Machine& machine, double needed);

}  // namespace trimtab::estimates
