// The tuner's speed on a GPT-like model: evaluations of a whole plan from scratch, in a search, and whole searches.

#include <benchmark/benchmark.h>

#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "../tests/tuner/gpt_world.hpp"
#include "pricing/evaluator.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace {

using namespace trimtab;         // NOLINT: a benchmark's own file
using namespace trimtab::tuner;  // NOLINT
using test::gpt;
using test::gpt_operators;
using test::Workload;

Candidate four_stages(const Workload& work, std::int32_t microbatch) {
  const auto operators = static_cast<std::int32_t>(work.model.operators.size());
  Candidate candidate;
  candidate.microbatch = microbatch;
  for (std::int32_t s = 1; s <= 4; ++s) candidate.stages.push_back(replicated_stage(operators * s / 4, 1));
  return candidate;
}

// Four stages of two devices in `split`, cuts a little to either side of even.
std::vector<Candidate> quarters(const Workload& work, const Split& split) {
  const auto operators = static_cast<std::int32_t>(work.model.operators.size());
  std::vector<Candidate> candidates;
  for (std::int32_t shift = -3; shift <= 3; ++shift) {
    Candidate candidate;
    candidate.microbatch = split.dp;
    for (std::int32_t s = 1; s <= 4; ++s) {
      candidate.stages.push_back({});
      candidate.stages.back().end = s == 4 ? operators : operators * s / 4 + (s == 2 ? shift : 0);
      candidate.stages.back().devices = 2;
      candidate.stages.back().split = split;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

constexpr Split kSplits[] = {{2, 1}, {1, 2}, {2, 1, ShardedLevel::kOptimizer}, {2, 1, ShardedLevel::kParameters}};

// What training may have seen of every collective: by kernel class and size, in either direction.
void add_slowdowns(Workload& work) {
  std::int64_t number = 0;
  for (const std::int32_t group : {2, 4, 8}) {
    for (const char* const primitive : {"all_reduce", "reduce_scatter", "all_gather"}) {
      for (const char* const kernel_class : {"gemm", "attention", "normalization", "elementwise", "other"}) {
        for (std::int64_t bytes = 1 << 16; bytes <= 1 << 28; bytes *= 2) {
          for (const CostKind kind : {CostKind::kOverlapComputation, CostKind::kOverlapCommunication}) {
            Cost cost;
            cost.key = {kind,  primitive,    "",     0,        1, "default",   bytes,
                        group, "intra_node", "ring", "simple", 8, kernel_class};
            for (int i = 0; i < 8; ++i) cost.statistics.add(1000000 + 400000 * (++number % 7) / 7);
            work.costs.push_back(cost);
          }
        }
      }
    }
  }
}

// Full plans of 315 operators in 4 stages with 1,024 microbatches (512 with two replicas). The first argument is the
// split of a stage: replicas, two ranks, sharded optimizer, sharded parameters. From scratch: no stage is remembered;
// the second argument says whether what is recomputed is chosen too (1) or given (0), the third whether training has
// seen what slows what down.
void BM_price_from_scratch(benchmark::State& state) {
  Workload work = gpt_operators(24, 1, 1024, true);
  if (state.range(2) == 1) add_slowdowns(work);
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs).value());
  const PlanSpace space = named_space("all", work.model, work.cluster, Knobs{}, 1).value();
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  std::vector<Candidate> candidates = quarters(work, kSplits[state.range(0)]);
  for (Candidate& candidate : candidates) {
    for (std::size_t s = 0; s < candidate.stages.size() && state.range(1) == 0; ++s) {
      candidate.stages[s].recompute = std::vector<Range>{{candidate.begin_of(s), candidate.begin_of(s) + 30}};
    }
  }
  if (!evaluator->price(candidates[0]).priced) return state.SkipWithError("not priced");
  std::size_t next = 0;
  for (auto _ : state) {
    evaluator->forget();
    benchmark::DoNotOptimize(evaluator->price(candidates[next++ % candidates.size()]));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_price_from_scratch)->ArgsProduct({{0, 1, 2, 3}, {0, 1}, {0, 1}});

// The same where all stages have been seen: what is left is to look them up and to simulate the step.
void BM_price_incremental(benchmark::State& state) {
  const Workload work = gpt_operators(24, 1, 1024, true);
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs).value());
  const PlanSpace space = named_space("all", work.model, work.cluster, Knobs{}, 1).value();
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  const std::vector<Candidate> candidates = quarters(work, kSplits[state.range(0)]);
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(evaluator->price(candidates[next++ % candidates.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_price_incremental)->DenseRange(0, 3);

// 1,000 layers of 13 operators on 16,384 devices, links from cluster.json alone.
void BM_build_large_table(benchmark::State& state) {
  const Workload work = gpt_operators(1000, 2048, 16384, false);
  for (auto _ : state) benchmark::DoNotOptimize(CostTable::build(work.model, work.cluster, work.costs, {true}));
}
BENCHMARK(BM_build_large_table)->Unit(benchmark::kMillisecond);

// 64 stages of 256 devices each, on tables of that size; the argument as above.
void BM_price_large_from_scratch(benchmark::State& state) {
  const Workload work = gpt_operators(1000, 2048, 16384, false);
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs, {true}).value());
  const PlanSpace space = named_space("all", work.model, work.cluster, Knobs{}, 1).value();
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  Candidate candidate;
  candidate.microbatch = 128;
  for (std::int32_t s = 1; s <= 64; ++s) {
    CandidateStage stage;
    stage.end = space.operators * s / 64;
    stage.devices = 256;
    stage.split = {32, 8, state.range(0) == 0 ? ShardedLevel::kNone : ShardedLevel::kOptimizer};
    candidate.stages.push_back(stage);
  }
  for (auto _ : state) {
    evaluator->forget();
    const Score score = evaluator->price(candidate);
    if (!score.priced) return state.SkipWithError("not priced");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_price_large_from_scratch)->DenseRange(0, 1)->Unit(benchmark::kMillisecond);

// `unified` over the native model on 8 devices. Arguments: layers of 13 operators; space "job" (0) or "all" (1);
// whether training has seen what slows what down.
void BM_search_unified(benchmark::State& state) {
  Workload work = gpt_operators(static_cast<std::int32_t>(state.range(0)), 1, 1024, true);
  if (state.range(2) == 1) add_slowdowns(work);
  const NativeCostModel model(CostTable::build(work.model, work.cluster, work.costs).value());
  SearchOptions options;
  options.strategy = "unified";
  options.space = state.range(1) == 0 ? "job" : "all";
  options.max_evaluations = 200000;
  double gap = 0;
  std::uint64_t evaluations = 0;
  for (auto _ : state) {
    const SearchOutcome outcome = search(model, Knobs{}, options).value();
    if (outcome.result.plans.empty()) return state.SkipWithError(outcome.infeasible.c_str());
    evaluations = outcome.result.evaluations;
    gap = outcome.result.plans[0].prediction.iteration_ms / outcome.result.lower_bound_ms - 1;
  }
  state.counters["evaluations"] = static_cast<double>(evaluations);
  state.counters["over_bound"] = gap;
}
BENCHMARK(BM_search_unified)->ArgsProduct({{24}, {0, 1}, {0, 1}})->Unit(benchmark::kMillisecond)->Iterations(1);

void BM_build_table(benchmark::State& state) {
  const Workload work = gpt(24, 4, 64);
  for (auto _ : state) benchmark::DoNotOptimize(CostTable::build(work.model, work.cluster, work.costs));
}
BENCHMARK(BM_build_table);

// One prediction with its interval, critical path and names. The argument is the number of microbatches.
void BM_evaluate(benchmark::State& state) {
  const auto batch = static_cast<std::int32_t>(state.range(0));
  const Workload work = gpt(24, 4, batch);
  const CostTable table = CostTable::build(work.model, work.cluster, work.costs).value();
  const NativeCostModel model(table);
  const Plan plan = usual_guess(work.model, work.cluster, Knobs{});
  for (auto _ : state) benchmark::DoNotOptimize(model.evaluate(plan));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_evaluate)->Arg(16)->Arg(64)->Arg(1024);

// A candidate whose stages have been seen, as in the inner loop of a search.
void BM_evaluate_in_search(benchmark::State& state) {
  const auto batch = static_cast<std::int32_t>(state.range(0));
  const Workload work = gpt(24, 4, batch);
  const CostTable table = CostTable::build(work.model, work.cluster, work.costs).value();
  const NativeCostModel model(table);
  const PlanSpace space = plan_space(work.model, work.cluster, Knobs{}, 1);
  const std::unique_ptr<Evaluator> evaluator = model.evaluator(space);
  std::vector<Candidate> candidates(7, four_stages(work, 1));
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].stages[1].end += static_cast<std::int32_t>(i) - 3;
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(evaluator->price(candidates[next++ % candidates.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_evaluate_in_search)->Arg(16)->Arg(64)->Arg(1024);

// Arguments: layers, devices, global batch.
void BM_search(benchmark::State& state) {
  const Workload work = gpt(static_cast<std::int32_t>(state.range(0)), static_cast<std::int32_t>(state.range(1)),
                            static_cast<std::int32_t>(state.range(2)));
  const CostTable table = CostTable::build(work.model, work.cluster, work.costs).value();
  const NativeCostModel model(table);
  std::uint64_t evaluations = 0;
  double gap = 0;
  for (auto _ : state) {
    const SearchOutcome outcome = search(model, Knobs{}, SearchOptions{}).value();
    evaluations = outcome.result.evaluations;
    if (outcome.result.plans.empty()) {
      state.SkipWithError(outcome.infeasible.c_str());
      return;
    }
    gap = outcome.result.plans[0].prediction.iteration_ms / outcome.result.lower_bound_ms - 1;
  }
  state.counters["evaluations"] = static_cast<double>(evaluations);
  state.counters["over_bound"] = gap;
}
BENCHMARK(BM_search)
    ->Args({24, 2, 16})
    ->Args({24, 4, 64})
    ->Args({24, 8, 64})
    ->Args({500, 8, 64})
    ->Unit(benchmark::kMillisecond);

}  // namespace
