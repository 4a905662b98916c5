#include "gpu_kernels.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace trimtab::bench::cuda {

namespace {

constexpr unsigned kThreads = 256;

__device__ std::uint64_t global_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ std::uint32_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return static_cast<std::uint32_t>(value >> 32);
}

__device__ float to_float(float value) {
  return value;
}
__device__ float to_float(__half value) {
  return __half2float(value);
}
__device__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ void put(float& out, float value) {
  out = value;
}
__device__ void put(__half& out, float value) {
  out = __float2half(value);
}
__device__ void put(__nv_bfloat16& out, float value) {
  out = __float2bfloat16(value);
}

// From the host's memory, past every cache.
__device__ std::uint32_t read_host(const volatile std::uint32_t* address) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
  return value;
}

__global__ void gate_kernel(Gate* gate, std::uint64_t limit_ns) {
  const std::uint64_t begin = global_nanoseconds();
  while (read_host(&gate->open) == 0) {
    if (global_nanoseconds() - begin > limit_ns) {
      gate->timed_out = 1;
      return;
    }
  }
}

template <typename T>
__global__ void fill_kernel(T* data, std::int64_t elements, std::uint64_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += stride) {
    put(data[i],
        static_cast<float>(mixed(seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull)) * 0x1p-31f - 1.0f);
  }
}

__global__ void fill_indices_kernel(std::int32_t* data, std::int64_t count, std::uint32_t limit, std::uint64_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    data[i] = static_cast<std::int32_t>(mixed(seed + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15ull) % limit);
  }
}

// What `combine` makes of the block's values, on every thread.
template <typename Combine>
__device__ float block_combined(float value, Combine combine) {
  __shared__ float parts[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  float combined = parts[0];
  for (unsigned i = 1; i < kThreads / 32; ++i) combined = combine(combined, parts[i]);
  return combined;
}

__device__ float block_sum(float value) {
  return block_combined(value, [](float a, float b) { return a + b; });
}

template <typename T>
__device__ void softmax_row(const T* row, T* out, std::int64_t columns) {
  float largest = -INFINITY;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) largest = fmaxf(largest, to_float(row[i]));
  largest = block_combined(largest, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) sum += __expf(to_float(row[i]) - largest);
  const float scale = 1.0f / block_sum(sum);
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads)
    put(out[i], __expf(to_float(row[i]) - largest) * scale);
}

template <typename T>
__device__ void layernorm_row(const T* row, T* out, std::int64_t columns) {
  float sum = 0;
  float squares = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
    const float value = to_float(row[i]);
    sum += value;
    squares += value * value;
  }
  const float mean = block_sum(sum) / columns;
  const float scale = rsqrtf(fmaxf(block_sum(squares) / columns - mean * mean, 0.0f) + 1e-5f);
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) put(out[i], (to_float(row[i]) - mean) * scale);
}

// Softmax's and layer normalisation's backward have this shape: a row's dot product, then one more pass.
template <typename T>
__device__ void backward_row(const T* output, const T* gradient, T* out, std::int64_t columns) {
  float dot = 0;
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) dot += to_float(output[i]) * to_float(gradient[i]);
  dot = block_sum(dot);
  for (std::int64_t i = threadIdx.x; i < columns; i += kThreads) {
    put(out[i], to_float(output[i]) * (to_float(gradient[i]) - dot));
  }
}

template <typename T>
__global__ void row_kernel(const T* first, const T* second, T* out, std::int64_t rows, std::int64_t columns,
                           bool softmax) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t at = row * columns;
    if (second != nullptr) {
      backward_row(first + at, second + at, out + at, columns);
    } else if (softmax) {
      softmax_row(first + at, out + at, columns);
    } else {
      layernorm_row(first + at, out + at, columns);
    }
  }
}

struct Tensors {
  const uint4* reads[4];
  uint4* writes[3];
  int read_count;
  int write_count;
};

__global__ void elementwise_kernel(Tensors tensors, std::int64_t vectors) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < vectors; i += stride) {
    uint4 sum = tensors.reads[0][i];
    for (int read = 1; read < tensors.read_count; ++read) {
      const uint4 value = tensors.reads[read][i];
      sum.x ^= value.x, sum.y ^= value.y, sum.z ^= value.z, sum.w ^= value.w;
    }
    for (int write = 0; write < tensors.write_count; ++write) tensors.writes[write][i] = sum;
  }
}

template <typename T>
__global__ void lookup_kernel(const std::int32_t* indices, T* table, T* rows, std::int64_t tokens, std::int64_t hidden,
                              bool backward) {
  for (std::int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    T* const entry = table + indices[token] * hidden;
    T* const row = rows + token * hidden;
    for (std::int64_t i = threadIdx.x; i < hidden; i += kThreads) {
      if (backward) {
        put(entry[i], to_float(entry[i]) + to_float(row[i]));  // Lost updates do not matter to the time.
      } else {
        row[i] = entry[i];
      }
    }
  }
}

// Each block copies its slice through shared memory, chunk by chunk, no faster than `chunk_ns` a chunk. With no source
// it only keeps its multiprocessor for `spin_ns`.
__global__ void __launch_bounds__(kChannelThreads)
    channel_kernel(const uint4* source, uint4* target, std::int64_t vectors, std::uint64_t chunk_ns,
                   std::uint64_t spin_ns) {
  extern __shared__ uint4 staging[];
  constexpr std::int64_t kChunk = 4 * kChannelThreads;  // 40 KiB
  const std::uint64_t begin = global_nanoseconds();
  if (source == nullptr) {
    while (global_nanoseconds() - begin < spin_ns) staging[threadIdx.x].x = threadIdx.x;
    return;
  }
  const std::int64_t share = (vectors + gridDim.x - 1) / gridDim.x;
  const std::int64_t low = share * blockIdx.x;
  const std::int64_t high = low + share < vectors ? low + share : vectors;
  std::uint64_t due = 0;
  for (std::int64_t chunk = low; chunk < high; chunk += kChunk) {
#pragma unroll
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t at = chunk + i * kChannelThreads + threadIdx.x;
      if (at < high) staging[i * kChannelThreads + threadIdx.x] = source[at];
    }
    __syncthreads();
#pragma unroll
    for (std::int64_t i = 0; i < 4; ++i) {
      const std::int64_t at = chunk + i * kChannelThreads + threadIdx.x;
      if (at < high) target[at] = staging[i * kChannelThreads + threadIdx.x];
    }
    due += chunk_ns;
    while (chunk_ns != 0 && global_nanoseconds() - begin < due) {
    }
    __syncthreads();
  }
}

__global__ void spin_kernel(std::uint64_t nanoseconds) {
  const std::uint64_t begin = global_nanoseconds();
  while (global_nanoseconds() - begin < nanoseconds) {
  }
}

unsigned blocks_for(std::int64_t threads) {
  constexpr std::int64_t kMost = 8192;
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
}

unsigned row_blocks(std::int64_t rows) {
  constexpr std::int64_t kMost = 65535;
  return static_cast<unsigned>(rows < kMost ? rows : kMost);
}

// start(value of the type) launches a kernel.
template <typename Start>
cudaError_t launch_typed(Dtype dtype, Start start) {
  switch (dtype) {
    case Dtype::kFloat32:
      start(float{});
      break;
    case Dtype::kFloat16:
      start(__half{});
      break;
    case Dtype::kBfloat16:
      start(__nv_bfloat16{});
      break;
  }
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_gate(Gate* gate, std::uint64_t limit_ns, cudaStream_t stream) {
  gate_kernel<<<1, 1, 0, stream>>>(gate, limit_ns);
  return cudaGetLastError();
}

cudaError_t launch_fill(void* data, std::int64_t elements, Dtype dtype, std::uint64_t seed, cudaStream_t stream) {
  if (elements < 1) return cudaSuccess;
  return launch_typed(dtype, [=](auto type) {
    using T = decltype(type);
    fill_kernel<T><<<blocks_for(elements), kThreads, 0, stream>>>(static_cast<T*>(data), elements, seed);
  });
}

cudaError_t launch_fill_indices(std::int32_t* data, std::int64_t count, std::int64_t limit, std::uint64_t seed,
                                cudaStream_t stream) {
  fill_indices_kernel<<<blocks_for(count), kThreads, 0, stream>>>(data, count, static_cast<std::uint32_t>(limit), seed);
  return cudaGetLastError();
}

cudaError_t launch_row(const RowKernel& rows, Dtype dtype, const void* first, const void* second, void* out,
                       cudaStream_t stream) {
  return launch_typed(dtype, [=](auto type) {
    using T = decltype(type);
    row_kernel<T><<<row_blocks(rows.rows), kThreads, 0, stream>>>(
        static_cast<const T*>(first), static_cast<const T*>(second), static_cast<T*>(out), rows.rows, rows.columns,
        rows.function == RowFunction::kSoftmax);
  });
}

cudaError_t launch_elementwise(std::int64_t bytes, const void* const* reads, int read_count, void* const* writes,
                               int write_count, cudaStream_t stream) {
  Tensors tensors{{}, {}, read_count, write_count};
  for (int i = 0; i < read_count; ++i) tensors.reads[i] = static_cast<const uint4*>(reads[i]);
  for (int i = 0; i < write_count; ++i) tensors.writes[i] = static_cast<uint4*>(writes[i]);
  const std::int64_t vectors = (bytes + 15) / 16;
  elementwise_kernel<<<blocks_for(vectors), kThreads, 0, stream>>>(tensors, vectors);
  return cudaGetLastError();
}

cudaError_t launch_lookup(const Lookup& lookup, Dtype dtype, const std::int32_t* indices, void* table, void* rows,
                          cudaStream_t stream) {
  return launch_typed(dtype, [=](auto type) {
    using T = decltype(type);
    lookup_kernel<T><<<row_blocks(lookup.tokens), kThreads, 0, stream>>>(
        indices, static_cast<T*>(table), static_cast<T*>(rows), lookup.tokens, lookup.hidden, lookup.backward);
  });
}

cudaError_t launch_channel(const ChannelKernel& channel, const void* source, void* target, cudaStream_t stream) {
  constexpr std::int64_t kChunkBytes = std::int64_t{4} * kChannelThreads * 16;
  constexpr double kNsPerByte = 1e9 / static_cast<double>(kLinkBytesPerSecond);
  const auto spin_ns = static_cast<std::uint64_t>(kNsPerByte * static_cast<double>(channel.bytes / channel.channels));
  const auto chunk_ns =
      channel.pace == Pace::kLink ? static_cast<std::uint64_t>(kNsPerByte * static_cast<double>(kChunkBytes)) : 0;
  channel_kernel<<<static_cast<unsigned>(channel.channels), kChannelThreads, kChannelSharedBytes, stream>>>(
      channel.pace == Pace::kSpin ? nullptr : static_cast<const uint4*>(source), static_cast<uint4*>(target),
      channel.bytes / 16, chunk_ns, spin_ns);
  return cudaGetLastError();
}

cudaError_t launch_spin(std::uint64_t nanoseconds, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

cudaError_t prepare_kernels() {
  return cudaFuncSetAttribute(channel_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(kChannelSharedBytes));
}

}  // namespace trimtab::bench::cuda
