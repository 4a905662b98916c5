#pragma once

// What the benchmarks ask a GPU to do, as values: single kernels and copies, and chains of them. Pure data.
//
// Shapes are those of one rank. Sizes are elements unless they say bytes. nvcc reads this file too, as C++17.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

namespace trimtab::bench {

enum class Dtype : std::uint8_t { kFloat32, kFloat16, kBfloat16 };
[[nodiscard]] std::string_view to_string(Dtype dtype);
[[nodiscard]] Result<Dtype> parse_dtype(std::string_view text);
[[nodiscard]] Bytes element_bytes(Dtype dtype);

// C[m,n] = A[m,k] B[k,n], `batch` times, row-major; a transposed operand is stored the other way round.
struct Gemm {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  std::int64_t batch = 1;
  bool transposed_a = false;
  bool transposed_b = false;
};

enum class RowFunction : std::uint8_t { kSoftmax, kLayerNorm };

// One pass over `rows` rows of `columns` each: forward reads and writes a row, backward reads two and writes one.
struct RowKernel {
  RowFunction function = RowFunction::kSoftmax;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  bool backward = false;
};

// Reads `reads` tensors of `elements` and writes `writes`: activations, residuals, dropout, optimizers.
struct Elementwise {
  std::int64_t elements = 1;
  std::int32_t reads = 1;
  std::int32_t writes = 1;
};

// Rows of a table of `vocabulary` rows, picked by `tokens` indices; backward adds into them.
struct Lookup {
  std::int64_t tokens = 1;
  std::int64_t hidden = 1;
  std::int64_t vocabulary = 1;
  bool backward = false;
};

enum class CopyDirection : std::uint8_t { kHostToDevice, kDeviceToHost };
[[nodiscard]] std::string_view to_string(CopyDirection direction);

// Between pinned host memory and the device, by a copy engine.
struct HostCopy {
  CopyDirection direction = CopyDirection::kHostToDevice;
  Bytes bytes = 1;
};

// How fast a channel of a collective-like kernel moves data.
enum class Pace : std::uint8_t {
  kMemory,  // as fast as memory gives
  kLink,    // held to kLinkBytesPerSecond a channel, as by a link
  kSpin     // touches no memory: only occupies its multiprocessor
};
[[nodiscard]] std::string_view to_string(Pace pace);
inline constexpr std::int64_t kLinkBytesPerSecond = 20'000'000'000;

// Stands for a collective on one GPU: `channels` thread blocks with NCCL's footprint (640 threads, 82,240 bytes of
// shared memory), which together copy `bytes` inside the device. No link, no peer, no waiting.
struct ChannelKernel {
  std::int32_t channels = 1;
  Pace pace = Pace::kMemory;
  Bytes bytes = 1;
};

// Occupies one thread block for about this long, by its own clock.
struct Spin {
  std::int64_t nanoseconds = 1000;
};

// Through NCCL, among blocks of `group_size` neighbouring ranks. "send_recv": of two neighbours the first sends, the
// second receives.
struct Collective {
  std::string primitive;
  Bytes bytes = 1;
  std::int32_t group_size = 2;
};

using Work = std::variant<Gemm, RowKernel, Elementwise, Lookup, HostCopy, ChannelKernel, Spin, Collective>;

struct Kernel {
  Work work;
  Dtype dtype = Dtype::kFloat32;
};

// Launched in order on one stream.
using Chain = std::vector<Kernel>;

// Memory that the kernel reads and writes, at least once each.
[[nodiscard]] Bytes touched_bytes(const Kernel& kernel);
[[nodiscard]] Bytes touched_bytes(const Chain& chain);
// For messages and tables: "gemm 4096x1024x1024 float16".
[[nodiscard]] std::string describe(const Kernel& kernel);

// Which device buffers a kernel needs, and how many sets of them keep repeated launches out of the cache.

enum class Fill : std::uint8_t { kNumbers, kIndices, kNothing };

struct Buffer {
  Bytes bytes = 0;
  Fill fill = Fill::kNumbers;  // kIndices: 32-bit, below `index_limit`
  std::int64_t index_limit = 0;
  bool shared = false;  // one for all sets: too large to copy and read at random anyway
};

// In the order in which a launch takes them: what is read, then what is written. A HostCopy's is its device side.
[[nodiscard]] std::vector<Buffer> buffers_of(const Kernel& kernel);

inline constexpr std::int32_t kMostSets = 64;

// Sets so that between two uses of one at least twice the cache is touched; fewer where `free_bytes` is short (at most
// a quarter of it is taken), at least one.
[[nodiscard]] std::int32_t rotation_sets(Bytes touched, Bytes cache, Bytes free_bytes);

}  // namespace trimtab::bench
