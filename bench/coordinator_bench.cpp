// What bounds a cluster's size on the coordinator: batches of costs committed per second, and steps of jobs handled per
// second.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

#include "costs/cost_intake.hpp"
#include "needs.hpp"
#include "schema/cost.hpp"
#include "schema/fingerprint.hpp"
#include "temporary_directory.hpp"
#include "tuning/trial/comparison.hpp"
#include "tuning/tuning.hpp"
#include "wire/agent.pb.h"

namespace {

using namespace trimtab;
using namespace trimtab::coordinator;

wire::CostBatch batch_of(std::int64_t entries) {
  wire::CostBatch batch;
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = "bench";
  batch.set_fingerprint_json(to_json(fingerprint));
  for (std::int64_t i = 0; i < entries; ++i) {
    CostKey key;
    key.kind = CostKind::kOperatorForward;
    key.subject = "operator-" + std::to_string(i);
    key.dtype = "float32";
    key.samples = 1;
    Statistics statistics;
    for (int value = 1; value <= 20; ++value) statistics.add(1'000'000 + 1'000 * value);
    wire::CostEntry& entry = *batch.add_entries();
    entry.set_key_json(to_json(key));
    entry.set_statistics(statistics.encode());
    entry.set_source("passive");
  }
  return batch;
}

// Decoding, validating, merging and committing (durably) batches: so many at a time, each of another agent, with so
// many costs each.
void ingest_batches(benchmark::State& state) {
  const TemporaryDirectory directory;
  auto costs = CostDatabase::open(directory.file("costs.db"), OpenMode::kCreate);
  if (!costs.ok()) return state.SkipWithError(costs.error().message.c_str());
  const std::string frame = batch_of(state.range(1)).SerializeAsString();
  Counters counters;
  BatchReader reader;
  std::uint64_t number = 0;
  for (auto _ : state) {
    ++number;
    std::vector<trimtab::CostBatch> group;
    for (std::int64_t agent = 0; agent < state.range(0); ++agent) {
      wire::CostBatch batch;
      batch.ParseFromString(frame);
      batch.set_batch(number);
      ReadBatch read = reader.read("agent" + std::to_string(agent), batch, counters);
      group.push_back(std::move(read.parts.front()));
    }
    const auto stored = costs->add_batches(group);
    if (!stored.ok()) return state.SkipWithError(stored.error().message.c_str());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["costs"] = benchmark::Counter(static_cast<double>(counters.cost_entries), benchmark::Counter::kIsRate);
}
BENCHMARK(ingest_batches)
    ->ArgNames({"group", "costs"})
    ->Args({1, 1})
    ->Args({1, 16})
    ->Args({1, 256})
    ->Args({64, 1})
    ->Args({64, 16})
    ->UseRealTime();

// A job that trains on: what each step of each rank costs the event loop.
void handle_steps(benchmark::State& state) {
  TuningState initial;
  initial.job.world_size = static_cast<std::int32_t>(state.range(0));
  initial.job.trials.loss_check_steps = 0;
  initial.phase = Phase::kTraining;
  initial.launch = 1;
  initial.epoch_hashes[1] = initial.incumbent.hash = "plan";
  Tuning tuning(initial);
  std::int64_t step = 0;
  for (auto _ : state) {
    ++step;
    for (std::int32_t rank = 0; rank < initial.job.world_size; ++rank) {
      benchmark::DoNotOptimize(tuning.handle(FromRank{rank, 1, RankStep{step, 1, 10, 1, "s", 1}}, {}));
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(handle_steps)->Arg(2)->Arg(64)->Arg(1024);

void compare_blocks(benchmark::State& state) {
  const Blocks a(3, std::vector<double>{100, 101, 103, 99, 100});
  const Blocks b(3, std::vector<double>{80, 81, 83, 79, 80});
  for (auto _ : state) benchmark::DoNotOptimize(compare(a, b, {1e-3, 5}));
}
BENCHMARK(compare_blocks);

}  // namespace
