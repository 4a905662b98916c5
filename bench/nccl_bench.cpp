// What a collective costs the job's and NCCL's threads: all its events through the collector, by channels; and what a
// decision of the tuner costs.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "collector.hpp"
#include "schema/nccl_table.hpp"
#include "tuner.hpp"

namespace {

using namespace trimtab::nccl;

std::uint64_t published = 0;

void collective_events(benchmark::State& state) {
  const auto channels = static_cast<std::uint8_t>(state.range(0));
  auto communicators = std::make_unique<Communicators>();
  auto slots = std::make_unique<CollectiveSlots>();
  Collector collector([](const CompletedCollective&) { ++published; }, *communicators, *slots);
  Communicator* communicator = communicators->add(1, 1, 8, 0, nullptr);
  std::uint64_t now = 1000;
  published = 0;
  for (auto _ : state) {
    EventDescriptor event{};
    event.collective = {now,      "AllReduce", nullptr, nullptr,  1024,   0, "ncclBfloat16",
                        channels, 0,           "RING",  "SIMPLE", nullptr};
    const std::uint64_t handle = collector.start(communicator, kCollectiveEvent, event, now);
    collector.stop(handle);
    for (std::uint8_t channel = 0; channel < channels; ++channel) {
      EventDescriptor part{};
      part.parent = reinterpret_cast<void*>(handle);
      part.kernel_channel = {channel, now + channel};
      const std::uint64_t of_channel = collector.start(nullptr, kKernelChannelEvent, part, now);
      StateArguments stop{now + 500};
      collector.record(of_channel, kKernelChannelStop, &stop);
      collector.stop(of_channel);
    }
    now += 1000;
  }
  if (published != static_cast<std::uint64_t>(state.iterations())) state.SkipWithError("collectives were lost");
}
BENCHMARK(collective_events)->Arg(1)->Arg(8)->Arg(24);

void tuner_decision(benchmark::State& state) {
  const auto entries = static_cast<std::uint32_t>(state.range(0));
  const std::size_t bytes = sizeof(TableHeader) + entries * sizeof(TableEntry);
  std::vector<std::uint64_t> memory(bytes / sizeof(std::uint64_t) + 1);
  auto* file = reinterpret_cast<char*>(memory.data());
  TableHeader header{kTableMagic, kTableVersion, sizeof(TableHeader), sizeof(TableEntry), entries, 1, 0};
  std::memcpy(file, &header, sizeof(header));
  for (std::uint32_t i = 0; i < entries; ++i) {
    const TableEntry entry{i * 100ULL, i * 100ULL + 99, 8, 0, kAllReduce, kRing, kSimple, 0, 0};
    std::memcpy(file + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
  }
  header.id = table_id(file, bytes);
  std::memcpy(file, &header, sizeof(header));
  TableView view;
  if (TableView::open(file, bytes, view) != TableFault::kNone) return state.SkipWithError("the table is refused");
  const void* context = tuner_context(8, 1);
  float costs[21];
  std::uint64_t size = 0;
  for (auto _ : state) {
    for (float& cost : costs) cost = 5;
    int channels = 0;
    size = (size + 7919) % (entries * 100ULL);
    if (!choose(view, context, kAllReduce, size, {costs, 7, 3}, &channels)) state.SkipWithError("nothing was chosen");
    benchmark::DoNotOptimize(costs);
  }
}
BENCHMARK(tuner_decision)->Arg(16)->Arg(16384);

}  // namespace

BENCHMARK_MAIN();
