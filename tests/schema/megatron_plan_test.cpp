#include "schema/plan_import.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "schema/launch_script.hpp"
#include "schema/megatron_model.hpp"
#include "schema/target.hpp"

using namespace trimtab;
using Catch::Contains;

namespace {

constexpr const char* kModel =
    "--num-layers 12 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 "
    "--vocab-size 100 --bf16 --lr 1e-4 ";

std::vector<std::string> words(const std::string& further) {
  return shell_words(kModel + further, "test").value();
}

Model model_of(const std::string& further) {
  auto model = model_from_megatron(words(further), "gpt");
  INFO(further);
  REQUIRE((model.ok() ? "" : model.error().message) == "");
  return std::move(model->model);
}

Plan plan_of(const std::string& further, std::int32_t ranks) {
  const std::string all = "--global-batch-size 64 --micro-batch-size 2 " + further;
  auto plan = plan_from_megatron(words(all), model_of(all), ranks);
  INFO(further);
  REQUIRE((plan.ok() ? "" : plan.error().message) == "");
  return std::move(*plan);
}

std::string refused(const std::string& further, std::int32_t ranks = 8) {
  const std::string all = "--global-batch-size 64 --micro-batch-size 2 " + further;
  const auto plan = plan_from_megatron(words(all), model_of(all), ranks);
  INFO(further);
  REQUIRE_FALSE(plan.ok());
  return plan.error().message;
}

std::vector<std::int32_t> operators_by_stage(const Plan& plan) {
  std::vector<std::int32_t> counts;
  for (const Stage& stage : plan.stages) counts.push_back(stage.operators().size());
  return counts;
}

using Counts = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("ranks are shared out as Megatron-LM does, what is left is data-parallel") {
  const Plan plan = plan_of("--tensor-model-parallel-size=2 --pipeline-model-parallel-size 2 --sequence-parallel", 16);
  REQUIRE(plan.stages.size() == 2);
  const Segment& first = plan.stages[0].segments.at(0);
  CHECK(first.tp == 2);
  CHECK(first.dp == 4);
  CHECK(plan.stages[1].devices == Counts{8, 9, 10, 11, 12, 13, 14, 15});
  CHECK(plan.global_batch == 64);
  CHECK(plan.microbatch == 8);
  CHECK(operators_by_stage(plan) == Counts{13, 13});  // embedding and 6 layers; 6 layers and head
  CHECK(plan.target_knobs.at("sequence_parallel") == "true");
  CHECK(plan_of("--sequence-parallel", 8).target_knobs.empty());  // Megatron-LM turns it off where tp is 1
}

TEST_CASE("stages are cut as each of Megatron-LM's options says") {
  const std::string two = "--pipeline-model-parallel-size 2 ";
  const auto counts = [&](const std::string& further) { return operators_by_stage(plan_of(two + further, 8)); };
  CHECK(counts("--num-layers-per-virtual-pipeline-stage 3") == Counts{7, 6, 6, 7});
  CHECK(counts("--num-virtual-stages-per-pipeline-rank 3") == Counts{5, 4, 4, 4, 4, 5});
  CHECK(counts("--decoder-first-pipeline-num-layers 4") == Counts{9, 17});
  CHECK(counts("--decoder-last-pipeline-num-layers 5") == Counts{15, 11});
  CHECK(counts("--pipeline-model-parallel-layout 'Et*5|t*7,L'") == Counts{11, 15});
  CHECK(counts("--pipeline-model-parallel-layout 'E,(tt*2|)*3(t)*3L'") == Counts{7, 6, 6, 7});
  CHECK(counts("--pipeline-model-parallel-layout 'E|t*12L'") == Counts{1, 25});
  CHECK(counts("--pipeline-model-parallel-layout 'Et*12|L'") == Counts{25, 1});
  const Plan interleaved = plan_of(two + "--num-layers-per-virtual-pipeline-stage 3", 8);
  CHECK(interleaved.schedule.kind == ScheduleKind::kInterleaved);
  CHECK(interleaved.stages[2].devices == interleaved.stages[0].devices);
  CHECK(plan_of(two + "--num-layers-per-virtual-pipeline-stage 6", 8).schedule.kind == ScheduleKind::k1F1B);
}

TEST_CASE("sharding, recomputation and buckets are what the arguments and Megatron-LM's defaults say") {
  const auto segment = [](const std::string& further) { return plan_of(further, 8).stages[0].segments.at(0); };
  CHECK(segment("").sharded == ShardedLevel::kNone);
  CHECK(segment("--use-distributed-optimizer").sharded == ShardedLevel::kOptimizer);
  CHECK(segment("--use-distributed-optimizer --num-distributed-optimizer-instances 2").sharded_degree == 4);
  CHECK(segment("--use-megatron-fsdp").sharded == ShardedLevel::kParameters);
  CHECK(segment("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").sharded ==
        ShardedLevel::kGradients);
  CHECK(segment("").recompute.empty());
  CHECK(segment("--recompute-granularity full --recompute-method uniform").recompute == std::vector<Range>{{1, 25}});
  CHECK(segment("--recompute-granularity full --recompute-method block --recompute-num-layers 3").recompute ==
        std::vector<Range>{{1, 7}});
  CHECK(segment("--recompute-granularity selective --recompute-modules mlp").recompute.size() == 12);
  CHECK(plan_of("--overlap-grad-reduce", 8).target_knobs.at("bucket_bytes") == "80000000");
  CHECK(plan_of("--overlap-grad-reduce --ddp-bucket-size 1000", 8).target_knobs.at("bucket_bytes") == "2000");
}

TEST_CASE("what a plan cannot say and what Megatron-LM refuses is refused by the option's name") {
  CHECK_THAT(refused("--tensor-model-parallel-size 3"),
             Contains("--tensor-model-parallel-size") && Contains("8 ranks"));
  CHECK_THAT(refused("--pipeline-model-parallel-size 8"), Contains("--pipeline-model-parallel-size"));
  CHECK_THAT(refused("--pipeline-model-parallel-size two"), Contains("expected one positive integer, found \"two\""));
  CHECK_THAT(refused("--micro-batch-size 3"), Contains("--global-batch-size"));
  CHECK_THAT(refused("--recompute-granularity selective"), Contains("--recompute-modules mlp"));
  CHECK_THAT(refused("--recompute-activations"), Contains("--recompute-modules mlp"));
  CHECK_THAT(refused("--recompute-granularity full"), Contains("--recompute-method"));
  CHECK_THAT(refused("--recompute-granularity full --recompute-method uniform --recompute-num-layers 2"),
             Contains("--recompute-num-layers"));
  CHECK_THAT(refused("--rampup-batch-size 16 16 1000"), Contains("--rampup-batch-size"));
  CHECK_THAT(refused("--use-torch-fsdp2"), Contains("--use-torch-fsdp2"));
  CHECK_THAT(refused("--overlap-param-gather"), Contains("--overlap-grad-reduce"));
  CHECK_THAT(refused("--optimizer-cpu-offload"), Contains("offload_optimizer"));
  CHECK_THAT(refused("--optimizer-cpu-offload --optimizer-offload-fraction 0.5"), Contains("\"0.5\""));
  CHECK_THAT(refused("--decoder-first-pipeline-num-layers 13 --pipeline-model-parallel-size 2"),
             Contains("--decoder-first-pipeline-num-layers"));
  CHECK_THAT(refused("--pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'Et*12||L'", 6),
             Contains("stage 1 would have no operator"));
  for (const char* layout : {"", "t", "EttL", "E(ttL", "Et*L", "Et*99999999L", "Ettx|L", "E|tttttttttttt|L|"}) {
    CHECK_THAT(
        refused("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout '" + std::string(layout) + "'"),
        Contains("--pipeline-model-parallel-layout"));
  }
}

TEST_CASE("one replica shards nothing, whatever optimizer Megatron-LM has") {
  const std::string split = "--tensor-model-parallel-size 2 ";
  for (const char* further :
       {"--use-distributed-optimizer", "--use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
        "--use-megatron-fsdp --use-distributed-optimizer"}) {
    const Plan plan = plan_of(split + further, 2);
    INFO(further);
    CHECK(plan.stages.at(0).segments.at(0).sharded == ShardedLevel::kNone);
    CHECK_FALSE(plan.target_knobs.contains("overlap_parameter_gather"));
  }
  CHECK_THAT(refused("--context-parallel-size 2 --use-distributed-optimizer", 2),
             Contains("--context-parallel-size") && Contains("over replicas alone"));
  CHECK(plan_of("--context-parallel-size 2", 2).stages.at(0).segments.at(0).cp == 2);
  const Plan offloaded = plan_of("--optimizer-cpu-offload --use-distributed-optimizer", 1);
  const auto exported = export_plan(offloaded, model_of("--global-batch-size 64"), "megatron");
  REQUIRE((exported.ok() ? "" : exported.error().message) == "");
  CHECK(std::ranges::count(exported->arguments, "--use-distributed-optimizer") == 1);
}

TEST_CASE("interleaved stages take microbatches in turn as a plan's do, or are refused by name") {
  const std::string stages =
      "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 4 ";
  constexpr const char* kTurn = "--microbatch-group-size-per-virtual-pipeline-stage";
  CHECK_THAT(refused(stages + "--global-batch-size 40 " + kTurn + " 5"), Contains(kTurn) && Contains("4, found 5"));
  CHECK_THAT(refused(stages + "--global-batch-size 40"), Contains("needs a multiple of that in microbatches, found 5"));
  CHECK(plan_of(stages + "--global-batch-size 32 " + kTurn + " 4", 8).schedule.kind == ScheduleKind::kInterleaved);
}

TEST_CASE("what is exported for Megatron-LM is read back as it was") {
  for (const char* further :
       {"--tensor-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather",
        "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 1 --micro-batch-size 1",
        "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*4|t*8L --recompute-granularity full "
        "--recompute-method block --recompute-num-layers 2",
        "--context-parallel-size 2 --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads"}) {
    INFO(further);
    const Plan plan = plan_of(further, 8);
    const Model model = model_of("--global-batch-size 64");
    const auto exported = export_plan(plan, model, "megatron");
    REQUIRE((exported.ok() ? "" : exported.error().message) == "");
    const auto again = plan_from_megatron(exported->arguments, model, 8);
    REQUIRE((again.ok() ? "" : again.error().message) == "");
    CHECK(to_json(*again) == to_json(plan));
  }
}
