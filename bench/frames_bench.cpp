// What it costs to look through a frame for its limits, beside parsing it and reading what it holds: a batch of costs,
// as agents send it, with so many entries.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "schema/cost.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/statistics.hpp"
#include "wire/agent.pb.h"

namespace {

using namespace trimtab;

std::string batch_frame(std::int64_t costs) {
  wire::FromAgent frame;
  wire::CostBatch& batch = *frame.mutable_cost_batch();
  batch.set_batch(12'345);
  batch.set_job("load");
  batch.set_fingerprint_json(std::string(600, 'f'));
  for (std::int64_t i = 0; i < costs; ++i) {
    CostKey key;
    key.kind = CostKind::kOperatorForward;
    key.subject = "layers." + std::to_string(i) + ".attention";
    key.dtype = "bfloat16";
    key.samples = 4;
    Statistics statistics;
    for (std::int64_t v = 0; v < 4; ++v) statistics.add(200'000 + 50'000 * i + 777 * v);
    wire::CostEntry& entry = *batch.add_entries();
    entry.set_key_json(to_json(key));
    entry.set_statistics(statistics.encode());
    entry.set_source("passive");
  }
  return frame.SerializeAsString();
}

void scan(benchmark::State& state) {
  const std::string frame = batch_frame(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(check_from_agent(frame).ok());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(frame.size()));
}

void parse(benchmark::State& state) {
  const std::string frame = batch_frame(state.range(0));
  for (auto _ : state) {
    wire::FromAgent read;
    benchmark::DoNotOptimize(read.ParseFromString(frame));
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(frame.size()));
}

// Parsed, and the statistics read: a part of what a coordinator does with each batch before it stores it.
void read_statistics(benchmark::State& state) {
  const std::string frame = batch_frame(state.range(0));
  for (auto _ : state) {
    wire::FromAgent read;
    bool good = read.ParseFromString(frame);
    for (const wire::CostEntry& entry : read.cost_batch().entries()) {
      good = Statistics::decode(entry.statistics()).ok() && good;
    }
    benchmark::DoNotOptimize(good);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(frame.size()));
}

BENCHMARK(scan)->Arg(4)->Arg(16)->Arg(2048);
BENCHMARK(parse)->Arg(4)->Arg(16)->Arg(2048);
BENCHMARK(read_statistics)->Arg(4)->Arg(16)->Arg(2048);

}  // namespace
