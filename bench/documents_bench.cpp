#include <cstdint>
#include <string>

#include <benchmark/benchmark.h>

#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace {

using trimtab::Model;
using trimtab::Operator;
using trimtab::Plan;
using trimtab::Segment;
using trimtab::Stage;

std::string model_json(std::int32_t operators) {
  Model model;
  model.name = "m";
  for (std::int32_t i = 0; i < operators; ++i) {
    Operator op;
    op.name = "layer-" + std::to_string(i);
    op.kind = "attention";
    op.cost_key = "attention-h256-t128";
    op.shape = {{"hidden", 256}, {"sequence", 128}};
    model.operators.push_back(op);
  }
  return to_json(model);
}

Plan plan_of(std::int32_t stages) {
  Plan plan;
  plan.model = "m";
  plan.global_batch = 1024;
  for (std::int32_t i = 0; i < stages; ++i) {
    Segment segment;
    segment.operators = {10 * i, 10 * i + 10};
    segment.dp = 2;
    segment.recompute = {{10 * i + 1, 10 * i + 5}};
    plan.stages.push_back(Stage{{2 * i, 2 * i + 1}, {segment}});
  }
  return plan;
}

void read_model(benchmark::State& state) {
  const std::string text = model_json(static_cast<std::int32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(trimtab::parse_model(text, "").ok());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void read_plan(benchmark::State& state) {
  const std::string text = to_json(plan_of(static_cast<std::int32_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(trimtab::parse_plan(text, "").ok());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

void write_plan(benchmark::State& state) {
  const Plan plan = plan_of(static_cast<std::int32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(to_json(plan));
}

void hash_plan(benchmark::State& state) {
  const Plan plan = plan_of(static_cast<std::int32_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(semantic_hash(plan));
}

}  // namespace

BENCHMARK(read_model)->Name("documents/read_model")->Arg(10)->Arg(1000);
BENCHMARK(read_plan)->Name("documents/read_plan")->Arg(2)->Arg(16);
BENCHMARK(write_plan)->Name("documents/write_plan")->Arg(2)->Arg(16);
BENCHMARK(hash_plan)->Name("documents/semantic_hash")->Arg(2)->Arg(16);
