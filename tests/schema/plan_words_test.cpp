#include "schema/plan_words.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

// An embedding, four layers of two operators, a head.
Model gpt() {
  Model model;
  model.name = "gpt";
  model.global_batch = 32;
  const auto add = [&](const char* kind, std::int32_t layer) {
    Operator op;
    op.name = kind + std::to_string(model.operators.size());
    op.kind = kind;
    op.cost_key = kind;
    op.layer = layer;
    op.parameter_bytes = 4096;
    model.operators.push_back(op);
  };
  add("embedding", 0);
  for (std::int32_t layer = 0; layer < 4; ++layer) {
    add("attention", layer);
    add("mlp", layer);
  }
  add("head", 3);
  return model;
}

Plan replicas(std::int32_t devices, std::int32_t microbatch) {
  Plan plan;
  plan.model = "gpt";
  plan.global_batch = 32;
  plan.microbatch = microbatch;
  Segment segment;
  segment.operators = {0, 10};
  segment.dp = devices;
  Stage stage;
  for (std::int32_t i = 0; i < devices; ++i) stage.devices.push_back(i);
  stage.segments = {segment};
  plan.stages = {stage};
  return plan;
}

}  // namespace

TEST_CASE("a plan is told in the words of PyTorch's scripts") {
  Plan plan = replicas(2, 16);
  CHECK(plan_words(plan, gpt(), "ddp") == "batch_size=8 per rank, gradient_accumulation_steps=2, checkpointing off");
  // What PyTorch does by itself is not said.
  plan.target_knobs["bucket_bytes"] = std::to_string(25 << 20);
  CHECK(plan_words(plan, gpt(), "ddp") == plan_words(replicas(2, 16), gpt(), "ddp"));
  plan.target_knobs["bucket_bytes"] = std::to_string(50 << 20);
  plan.stages[0].segments[0].sharded = ShardedLevel::kOptimizer;
  plan.stages[0].segments[0].recompute = {{1, 5}, {7, 9}};
  CHECK(plan_words(plan, gpt(), "ddp") ==
        "batch_size=8 per rank, gradient_accumulation_steps=2, checkpointing of 3 of 4 layers (0-1 and 3), "
        "ZeroRedundancyOptimizer, bucket_cap_mb=50.0");
  Plan sharded = replicas(4, 32);
  sharded.stages[0].segments[0].sharded = ShardedLevel::kParameters;
  sharded.stages[0].segments[0].recompute = {{1, 9}};
  CHECK(plan_words(sharded, gpt(), "fsdp") ==
        "batch_size=8 per rank, gradient_accumulation_steps=1, checkpointing of all 4 layers, "
        "sharding_strategy=FULL_SHARD");
}

TEST_CASE("a pipeline is told in the words of PyTorch's schedules") {
  Plan plan = replicas(2, 8);
  CHECK(plan_words(plan, gpt(), "pipelining") == "schedule=1F1B, n_microbatches=4, group_size=1, checkpointing off");
  plan.schedule.kind = ScheduleKind::kGPipe;
  plan.stages.assign(2, plan.stages[0]);
  plan.stages[0].segments[0].operators = {0, 7};
  plan.stages[0].segments[0].recompute = {{3, 5}};
  plan.stages[1].segments[0].operators = {7, 10};
  plan.stages[1].devices = {2, 3};
  CHECK(plan_words(plan, gpt(), "pipelining") ==
        "schedule=GPipe, n_microbatches=4, group_size=2, split_layers=3, checkpointing of 1 of 4 layers (1)");
}

TEST_CASE("a plan is told in flags of Megatron-LM and torchtitan and in DeepSpeed's keys, and else not at all") {
  const Plan plan = replicas(2, 16);
  CHECK(plan_words(plan, gpt(), "megatron") ==
        "--global-batch-size 32 --micro-batch-size 8 --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1");
  CHECK(plan_words(plan, gpt(), "deepspeed") ==
        "train_batch_size=32, train_micro_batch_size_per_gpu=8, gradient_accumulation_steps=2, "
        "zero_optimization.stage=0");
  CHECK(plan_words(plan, gpt(), "torchtitan-0.2") ==
        "--training.global_batch_size 32 --training.local_batch_size 8 --training.no-enable_cpu_offload "
        "--parallelism.pipeline_parallel_degree 1 --parallelism.tensor_parallel_degree 1 "
        "--parallelism.context_parallel_degree 1 --parallelism.data_parallel_replicate_degree 2 "
        "--parallelism.data_parallel_shard_degree 1 --activation_checkpoint.mode none");
  for (const char* target : {"", "trainer", "galvatron", "none such"}) CHECK(plan_words(plan, gpt(), target).empty());
  Plan pipeline = plan;  // DDP runs no such plan
  pipeline.stages[0].segments[0].tp = 2;
  CHECK(plan_words(pipeline, gpt(), "ddp").empty());
}

TEST_CASE("words travel in a plan's document and mean nothing to it") {
  const Plan plan = replicas(2, 16);
  CHECK(to_json(plan, "") == to_json(plan));
  const std::string told = to_json(plan, "batch_size=\"8\"");
  CHECK(words_in(told) == "batch_size=\"8\"");
  CHECK(parse_plan(told, "plan").value() == plan);
  CHECK(semantic_hash(parse_plan(told, "plan").value()) == semantic_hash(plan));
  CHECK(words_in(to_json(plan)).empty());
  CHECK(words_in("{}").empty());
  CHECK(words_in("no JSON").empty());
  CHECK(words_in("{\"in_words\": 7}").empty());
}
