#pragma once

// Launches of our own kernels: the only way into gpu_kernels.cu. They return a cudaError_t and wait for nothing.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels.hpp"

namespace trimtab::bench::cuda {

// NCCL's own kernels on sm_90: as many threads, as much dynamic shared memory.
inline constexpr unsigned kChannelThreads = 640;
inline constexpr unsigned kChannelSharedBytes = 82'240;

// Pinned host memory that a gate kernel watches.
struct Gate {
  volatile std::uint32_t open;
  volatile std::uint32_t timed_out;
};

// Ends when `gate->open` is set, or after `limit_ns`, which it notes.
cudaError_t launch_gate(Gate* gate, std::uint64_t limit_ns, cudaStream_t stream);
// Numbers from -1 to 1 of the type, the same for the same seed.
cudaError_t launch_fill(void* data, std::int64_t elements, Dtype dtype, std::uint64_t seed, cudaStream_t stream);
cudaError_t launch_fill_indices(std::int32_t* data, std::int64_t count, std::int64_t limit, std::uint64_t seed,
                                cudaStream_t stream);
cudaError_t launch_row(const RowKernel& rows, Dtype dtype, const void* first, const void* second, void* out,
                       cudaStream_t stream);
// `bytes` of each tensor, at most four read and three written.
cudaError_t launch_elementwise(std::int64_t bytes, const void* const* reads, int read_count, void* const* writes,
                               int write_count, cudaStream_t stream);
cudaError_t launch_lookup(const Lookup& lookup, Dtype dtype, const std::int32_t* indices, void* table, void* rows,
                          cudaStream_t stream);
cudaError_t launch_channel(const ChannelKernel& channel, const void* source, void* target, cudaStream_t stream);
cudaError_t launch_spin(std::uint64_t nanoseconds, cudaStream_t stream);
// Once for each device: lets the channel kernel have its shared memory.
cudaError_t prepare_kernels();

}  // namespace trimtab::bench::cuda
