#include <cstdint>

#include <benchmark/benchmark.h>

#include "base/ring.hpp"

namespace {

trimtab::Ring<std::uint64_t>& shared_ring() {
  static trimtab::Ring<std::uint64_t> ring(1024);
  return ring;
}

void push_and_pop(benchmark::State& state) {
  trimtab::Ring<std::uint64_t> ring(1024);
  for (auto _ : state) {
    ring.push(1);
    benchmark::DoNotOptimize(ring.pop());
  }
  state.SetItemsProcessed(state.iterations());
}

// Nobody reads, so after the first 1024 items this is the price of a drop: what a stuck consumer costs its producers.
void push_to_a_full_ring(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(shared_ring().push(1));
  state.SetItemsProcessed(state.iterations());
}

}  // namespace

BENCHMARK(push_and_pop)->Name("ring/push_and_pop");
BENCHMARK(push_to_a_full_ring)->Name("ring/push_to_a_full_ring")->Threads(1)->Threads(2);
