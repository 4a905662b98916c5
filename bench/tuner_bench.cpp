// The tuner's speed on a GPT-like model: evaluations of a whole plan from scratch, in a search, and whole searches.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "evaluator.hpp"
#include "tuner/cost_model.hpp"
#include "tuner/cost_table.hpp"
#include "tuner/search.hpp"
#include "tuner/validate.hpp"

namespace {

using namespace trimtab;         // NOLINT: a benchmark's own file
using namespace trimtab::tuner;  // NOLINT

Cost exact(CostKind kind, const std::string& subject, std::int32_t samples, std::int64_t value) {
  Cost cost;
  cost.key.kind = kind;
  cost.key.subject = subject;
  cost.key.dtype = "float32";
  cost.key.samples = samples;
  cost.statistics.add(value);
  cost.statistics.add(value);
  return cost;
}

// An embedding, attention and feedforward in turn, a head; memory for about two thirds of what a pipeline would like.
struct Workload {
  Model model;
  Cluster cluster;
  std::vector<Cost> costs;
};

void add_operator(Workload& work, const std::string& kind, std::int32_t layer, Bytes parameters) {
  Operator op;
  op.name = "layer" + std::to_string(layer) + "-" + kind;
  op.kind = op.cost_key = kind;
  op.layer = layer;
  op.parameter_bytes = parameters;
  op.output_bytes = 1 << 20;
  op.activation_bytes = 6 << 20;
  work.model.operators.push_back(op);
}

void measure(Workload& work, const std::string& kind, std::int64_t forward_ns, std::int64_t stored) {
  for (std::int32_t samples = 1; samples <= work.model.global_batch; samples *= 2) {
    work.costs.push_back(exact(CostKind::kOperatorForward, kind, samples, 200000 + forward_ns * samples));
    work.costs.push_back(exact(CostKind::kOperatorBackward, kind, samples, 300000 + 2 * forward_ns * samples));
    work.costs.push_back(exact(CostKind::kOperatorStoredBytes, kind, samples, stored * samples));
    work.costs.push_back(exact(CostKind::kOperatorWorkingBytes, kind, samples, (1 << 20) * samples));
  }
  work.costs.push_back(exact(CostKind::kOptimizerStep, kind, 0, 500000));
}

Workload gpt(std::int32_t layers, std::int32_t devices, std::int32_t batch) {
  Workload work;
  work.model.name = "gpt";
  work.model.global_batch = batch;
  add_operator(work, "embedding", 0, 48 << 20);
  for (std::int32_t i = 0; i < layers; ++i) {
    add_operator(work, "attention", i, 4 << 20);
    add_operator(work, "feedforward", i, 8 << 20);
  }
  add_operator(work, "head", layers - 1, 48 << 20);
  measure(work, "embedding", 300000, 2 << 20);
  measure(work, "attention", 2000000, 7 << 20);
  measure(work, "feedforward", 2600000, 5 << 20);
  measure(work, "head", 4000000, 9 << 20);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1} << 32}) {
    Cost send = exact(CostKind::kPointToPoint, "send_recv", 0, 100000 + bytes / 4);
    send.key.bytes = bytes;
    work.costs.push_back(send);
    for (std::int32_t group = 2; group <= devices; ++group) {
      Cost reduce = exact(CostKind::kCollective, "all_reduce", 0, 200000 + bytes / 2);
      reduce.key.bytes = bytes;
      reduce.key.group_size = group;
      work.costs.push_back(reduce);
    }
  }
  Cost process = exact(CostKind::kProcessBytes, "process", 0, 100 << 20);
  work.costs.push_back(process);
  Node node;
  node.name = "n0";
  node.devices = devices;
  node.memory_bytes = (Bytes{600} << 20) * (layers / 24 + 1) * 4 / devices;
  work.cluster.nodes = {node};
  return work;
}

Candidate four_stages(const Workload& work, std::int32_t microbatch) {
  const auto operators = static_cast<std::int32_t>(work.model.operators.size());
  Candidate candidate;
  candidate.microbatch = microbatch;
  for (std::int32_t s = 1; s <= 4; ++s) candidate.stages.push_back({operators * s / 4, 1, 0});
  return candidate;
}

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
  const CostModel model(table);
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
  const CostModel model(table);
  const PlanSpace space = plan_space(work.model, work.cluster, Knobs{}, 1);
  Evaluator evaluator(model, space);
  std::vector<Candidate> candidates(7, four_stages(work, 1));
  for (std::size_t i = 0; i < candidates.size(); ++i) candidates[i].stages[1].end += static_cast<std::int32_t>(i) - 3;
  std::size_t next = 0;
  for (auto _ : state) benchmark::DoNotOptimize(evaluator.price(candidates[next++ % candidates.size()]));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_evaluate_in_search)->Arg(16)->Arg(64)->Arg(1024);

// Arguments: layers, devices, global batch.
void BM_search(benchmark::State& state) {
  const Workload work = gpt(static_cast<std::int32_t>(state.range(0)), static_cast<std::int32_t>(state.range(1)),
                            static_cast<std::int32_t>(state.range(2)));
  const CostTable table = CostTable::build(work.model, work.cluster, work.costs).value();
  const CostModel model(table);
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
