// The record ring from end to end: publishing, draining, folding.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "name_table.hpp"
#include "records/range_fold.hpp"
#include "records/ring_reader.hpp"
#include "ring_memory.hpp"
#include "ring_writer.hpp"

namespace {

using namespace trimtab;
using agent::RangeRecord;

constexpr inject::RingShape kShape{65536, 4096};

struct RecordRing {
  inject::RingMemory memory = inject::create_ring_memory(kShape.bytes());
  inject::RingWriter writer = inject::RingWriter::format(memory.address, kShape, 1);
  inject::NameTable names{writer.names(), kShape.names};
  SystemClock clock;
  std::unique_ptr<agent::RingReader> reader = agent::RingReader::attach(dup(memory.descriptor.get()), clock).value();

  // As training steps write them: forward and backward of 24 layers.
  void fill() {
    inject::RecordFields fields;
    fields.flags = record::kPayloadValid;
    fields.payload = 4;
    fields.domain = names.intern("trimtab", 7);
    for (std::uint32_t i = 0; i < kShape.slots; ++i) {
      const std::string pass = i % 2 == 0 ? "forward" : "backward";
      const std::string name = "op/layer." + std::to_string(i % 24) + ".attention/" + pass;
      fields.name = names.intern(name.data(), name.size());
      fields.begin_ns = 1'700'000'000'000'000'000U + i;
      fields.end_ns = fields.begin_ns + 100'000 + i % 1000;
      writer.publish(fields);
    }
  }
};

// Drains full rings into the sink and reports records a second.
void drain_full_rings(benchmark::State& state, const agent::RingReader::Sink& sink) {
  RecordRing ring;
  std::int64_t records = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ring.fill();
    state.ResumeTiming();
    records += static_cast<std::int64_t>(ring.reader->drain(SIZE_MAX, sink).records);
  }
  state.SetItemsProcessed(records);
}

void record_ring_publish(benchmark::State& state) {
  RecordRing ring;
  std::uint32_t written = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ring.writer.publish({}));
    if (++written % kShape.slots == 0) {
      state.PauseTiming();
      ring.reader->drain(SIZE_MAX, [](std::span<const RangeRecord>) {});
      state.ResumeTiming();
    }
  }
}
BENCHMARK(record_ring_publish);

void record_ring_publish_to_a_full_one(benchmark::State& state) {
  RecordRing ring;
  ring.fill();
  for (auto _ : state) benchmark::DoNotOptimize(ring.writer.publish({}));
}
BENCHMARK(record_ring_publish_to_a_full_one);

void record_ring_drain(benchmark::State& state) {
  std::int64_t sum = 0;
  drain_full_rings(state, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) sum += record.duration_ns();
  });
  benchmark::DoNotOptimize(sum);
}
BENCHMARK(record_ring_drain)->Unit(benchmark::kMillisecond);

void record_ring_drain_and_fold(benchmark::State& state) {
  agent::FoldContext context;
  context.dtype = "float32";
  for (int i = 0; i < 24; ++i) {
    context.operators["layer." + std::to_string(i) + ".attention"] = {"attention-h256", 1, "default"};
  }
  agent::RangeFold fold({.warmup = 0});
  fold.set_context(0, std::move(context));
  drain_full_rings(state, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) fold.add(record);
  });
  benchmark::DoNotOptimize(fold.take());
}
BENCHMARK(record_ring_drain_and_fold)->Unit(benchmark::kMillisecond);

void intern_known_name(benchmark::State& state) {
  RecordRing ring;
  const std::string name = "op/layer.11.attention/forward";
  for (auto _ : state) benchmark::DoNotOptimize(ring.names.intern(name.data(), name.size()));
}
BENCHMARK(intern_known_name);

}  // namespace
