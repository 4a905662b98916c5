#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.hpp"
#include "schema/cost_database.hpp"
#include "temporary_directory.hpp"

namespace {

using namespace trimtab;

std::vector<Cost> costs_of(std::int64_t count) {
  Random random(1);
  std::vector<Cost> costs;
  for (std::int64_t i = 0; i < count; ++i) {
    Cost cost{{CostKind::kOperatorForward, "op" + std::to_string(i), "float32", 2, 1, "default", 0, 0, ""}, {}};
    for (int repetition = 0; repetition < 20; ++repetition) cost.statistics.add(random.between(1'000'000, 1'050'000));
    costs.push_back(cost);
  }
  return costs;
}

void must(bool ok, benchmark::State& state) {
  if (!ok) state.SkipWithError("the database refused");
}

void add_batch(benchmark::State& state) {
  const TemporaryDirectory directory;  // on the disk: each batch is synced, as in a daemon
  const std::vector<Cost> costs = costs_of(state.range(0));
  CostDatabase database = CostDatabase::open(directory.file("c.db"), OpenMode::kCreate).value();
  std::uint64_t number = 0;
  for (auto _ : state) must(database.add_batch({"agent", ++number}, {}, "active", costs).ok(), state);
  state.counters["costs"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate);
}

void read_costs(benchmark::State& state) {
  const TemporaryDirectory directory;
  CostDatabase database = CostDatabase::open(directory.file("c.db"), OpenMode::kCreate).value();
  for (std::uint64_t number = 1; number <= 10; ++number) {
    must(database.add_batch({"agent", number}, {}, "active", costs_of(state.range(0))).ok(), state);
  }
  for (auto _ : state) must(database.costs(hash(Fingerprint())).ok(), state);
  state.counters["costs"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)), benchmark::Counter::kIsRate);
}

void merge(benchmark::State& state) {
  const TemporaryDirectory directory;
  CostDatabase theirs = CostDatabase::open(directory.file("theirs.db"), OpenMode::kCreate).value();
  for (std::uint64_t number = 1; number <= 10; ++number) {
    must(theirs.add_batch({"agent", number}, {}, "active", costs_of(state.range(0))).ok(), state);
  }
  std::uint64_t round = 0;
  for (auto _ : state) {
    CostDatabase ours =
        CostDatabase::open(directory.file("ours" + std::to_string(++round) + ".db"), OpenMode::kCreate).value();
    must(ours.merge_from(directory.file("theirs.db")).ok(), state);
  }
  state.counters["costs"] =
      benchmark::Counter(static_cast<double>(state.iterations() * state.range(0) * 10), benchmark::Counter::kIsRate);
}

}  // namespace

BENCHMARK(add_batch)->Name("cost_database/add_batch")->Arg(1)->Arg(100)->Arg(1000)->UseRealTime();
BENCHMARK(read_costs)->Name("cost_database/read_costs")->Arg(100)->UseRealTime();
BENCHMARK(merge)->Name("cost_database/merge")->Arg(1000)->UseRealTime();
