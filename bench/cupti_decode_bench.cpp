// How many kernel records a second go from CUPTI's buffers into the ring: decoding on one thread, the agent's reader on
// another. The iterator is the real library's where one was found when this was configured, else one by strides.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "cupti/activity_decoder.hpp"
#include "records/ring_reader.hpp"
#include "ring_memory.hpp"

namespace {

using namespace trimtab;
using namespace trimtab::inject;

constexpr std::size_t kStride = 216;  // a kernel's record in 13.0
constexpr std::size_t kBufferBytes = 1 << 20;
constexpr int kKernels = 300;  // a training step's different ones

cupti::Result next_by_stride(std::uint8_t* buffer, std::size_t valid_bytes, cupti::Activity** record) {
  std::uint8_t* next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + kStride;
  if (next + kStride > buffer + valid_bytes) return cupti::kMaxLimitReached;
  *record = reinterpret_cast<cupti::Activity*>(next);
  return cupti::kSuccess;
}

cupti::Library by_stride() {
  cupti::Library library;
  library.version = cupti::kVersion13_0;
  library.get_next_record = next_by_stride;
  return library;
}

cupti::Library real_library() {
  cupti::Library library;
#ifdef REAL_CUPTI
  if (!cupti::load_library(REAL_CUPTI, library).running()) library.get_next_record = nullptr;
#endif
  return library;
}

struct Decoding {
  explicit Decoding(const cupti::Library& with) : library(with) {
    for (int i = 0; i < kKernels; ++i) {
      texts.push_back("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FunctorNumber" + std::to_string(i) +
                      "ESt5arrayIPcLm3EEEEviT0_T1_");
    }
    const std::size_t records = kBufferBytes / kStride;
    for (std::size_t i = 0; i < records; ++i) {
      cupti::KernelActivity kernel{};
      kernel.kind = cupti::kKindConcurrentKernel;
      kernel.start = 1'700'000'000'000'000'000U + i * 1000;
      kernel.end = kernel.start + 900;
      kernel.stream = 7;
      kernel.correlation = static_cast<std::uint32_t>(i);
      kernel.name = texts[i % texts.size()].c_str();
      std::memcpy(bytes() + i * kStride, &kernel, sizeof(kernel));
    }
    valid_bytes = records * kStride;
  }
  std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(buffer.data()); }
  cupti::DecodeTarget target() { return {&writer, {&table, 1}}; }

  static constexpr RingShape kShape{65536, 4096};
  cupti::Library library;
  std::vector<std::string> texts;
  std::vector<std::uint64_t> buffer = std::vector<std::uint64_t>(kBufferBytes / 8);
  std::size_t valid_bytes = 0;
  RingMemory memory = create_ring_memory(kShape.bytes());
  RingWriter writer = RingWriter::format(memory.address, kShape, 1);
  NameTable table{writer.names(), kShape.names};
  std::unique_ptr<cupti::KernelNames> names = std::make_unique<cupti::KernelNames>();
  cupti::ActivityDecoder decoder{library, *names};
  SystemClock clock;
  std::unique_ptr<agent::RingReader> reader = agent::RingReader::attach(dup(memory.descriptor.get()), clock).value();
};

// Decoding alone: the ring is emptied between the buffers, outside the measured time.
void decode(benchmark::State& state, const cupti::Library& library) {
  if (library.get_next_record == nullptr) return state.SkipWithError("no libcupti was found");
  Decoding decoding(library);
  std::int64_t records = 0;
  for (auto _ : state) {
    records += static_cast<std::int64_t>(
        decoding.decoder.decode(decoding.bytes(), decoding.valid_bytes, decoding.target()).records);
    state.PauseTiming();
    decoding.reader->drain(SIZE_MAX, [](std::span<const agent::RangeRecord>) {});
    state.ResumeTiming();
  }
  state.SetItemsProcessed(records);
}

// From end to end, in wall time: what does not arrive is not counted. The producer waits for room as CUPTI's pace
// would.
void decode_and_drain(benchmark::State& state, const cupti::Library& library) {
  if (library.get_next_record == nullptr) return state.SkipWithError("no libcupti was found");
  Decoding decoding(library);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> drained{0};
  std::thread consumer([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const auto drain = decoding.reader->drain(SIZE_MAX, [](std::span<const agent::RangeRecord> batch) {
        for (const agent::RangeRecord& record : batch) benchmark::DoNotOptimize(record.duration_ns());
      });
      drained.fetch_add(drain.records, std::memory_order_release);
      if (drain.records == 0) std::this_thread::yield();
    }
  });
  std::uint64_t published = 0;
  for (auto _ : state) {
    while (published - drained.load(std::memory_order_acquire) > Decoding::kShape.slots / 2) std::this_thread::yield();
    published += decoding.decoder.decode(decoding.bytes(), decoding.valid_bytes, decoding.target()).records;
  }
  while (drained.load(std::memory_order_acquire) + decoding.writer.header().dropped < published) {
    std::this_thread::yield();
  }
  stop = true;
  consumer.join();
  state.SetItemsProcessed(static_cast<std::int64_t>(drained.load()));
  state.counters["dropped"] = static_cast<double>(decoding.writer.header().dropped.load());
}

BENCHMARK_CAPTURE(decode, by_stride, by_stride())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode, real_iterator, real_library())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_and_drain, by_stride, by_stride())->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK_CAPTURE(decode_and_drain, real_iterator, real_library())->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
