#include <cstdint>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.hpp"
#include "schema/statistics.hpp"

namespace {

using trimtab::Random;
using trimtab::Statistics;

// Times around 1 ms with a spread of 5 %: what an operator's measurements look like.
std::vector<std::int64_t> times(std::size_t count) {
  Random random(1);
  std::vector<std::int64_t> values(count);
  for (auto& value : values) value = static_cast<std::int64_t>(1e6 * (1 + 0.05 * random.uniform()));
  return values;
}

Statistics statistics_of(std::size_t count) {
  Statistics statistics;
  for (const std::int64_t value : times(count)) statistics.add(value);
  return statistics;
}

void add(benchmark::State& state) {
  const std::vector<std::int64_t> values = times(4096);
  Statistics statistics;
  std::size_t i = 0;
  for (auto _ : state) statistics.add(values[i++ % values.size()]);
  state.SetItemsProcessed(state.iterations());
}

void merge(benchmark::State& state) {
  const Statistics part = statistics_of(100);
  Statistics sum;
  for (auto _ : state) sum.merge(part);
  state.SetItemsProcessed(state.iterations());
}

void encode(benchmark::State& state) {
  const Statistics statistics = statistics_of(100);
  for (auto _ : state) benchmark::DoNotOptimize(statistics.encode());
  state.SetItemsProcessed(state.iterations());
}

void decode(benchmark::State& state) {
  const std::string text = statistics_of(100).encode();
  for (auto _ : state) benchmark::DoNotOptimize(Statistics::decode(text).ok());
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

BENCHMARK(add)->Name("statistics/add");
BENCHMARK(merge)->Name("statistics/merge");
BENCHMARK(encode)->Name("statistics/encode");
BENCHMARK(decode)->Name("statistics/decode");
