#include "estimates/told_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "base/text_parts.hpp"
#include "estimates/find.hpp"

namespace trimtab::estimates {

namespace {

GptSizes small_sizes() {
  GptSizes sizes;
  sizes.layers = 8;
  sizes.hidden = 1024;
  sizes.heads = 8;
  sizes.groups = 8;
  sizes.channels = 128;
  sizes.ffn = 4096;
  sizes.sequence = 8192;
  sizes.batch = 16;
  sizes.vocabulary = 32000;
  sizes.gated = sizes.rms = sizes.half = true;
  sizes.bias = sizes.tied = false;
  sizes.dtype = "bfloat16";
  return sizes;
}

std::string line_of(const UniformPlan& plan, Target target) {
  const auto told = tell(as_run(plan, target), *gpt_model(small_sizes(), "small"), target);
  return told.ok() ? joined(told->told.arguments, " ") : told.error().message;
}

UniformPlan sixteen() {
  UniformPlan plan;
  plan.replicas = 2;
  plan.tensor = 2;
  plan.stages = 4;
  plan.global_batch = 16;
  plan.sharded = Sharded::kOptimizer;
  return plan;
}

}  // namespace

TEST_CASE("every plan that is found for a target can be told to it") {
  const ModelShape shape = shape_of(small_sizes(), "small");
  const Model model = *gpt_model(small_sizes(), "small");
  Machine machine = *machine_by_name("16xH100", "");
  for (const std::string_view name : target_names()) {
    FindOptions options;
    options.global_batch = 16;
    options.target = *target_by_name(name);
    options.offload = true;
    for (const Bytes gib : {Bytes{5}, Bytes{12}}) {  // with recomputation, and without
      machine.gpu.memory = gib << 30;
      for (const PricedPlan& one : find_plans(machine, shape, options).plans) {
        const auto told = tell(one.plan, model, options.target);
        CAPTURE(name, words_of(one.plan), recompute_words(one.plan, shape), told.ok() ? "" : told.error().message);
        REQUIRE(told.ok());
      }
    }
    REQUIRE_FALSE(find_plans(machine, shape, options).plans.empty());
  }
}

TEST_CASE("a uniform plan goes through plan.json and comes back") {
  const ModelShape shape = shape_of(small_sizes(), "small");
  const Model model = *gpt_model(small_sizes(), "small");
  const Machine machine = *machine_by_name("8xH100", "");
  for (const std::string_view name : target_names()) {
    FindOptions options;
    options.global_batch = 16;
    options.target = *target_by_name(name);
    options.every = true;
    for (const PricedPlan& one : find_plans(machine, shape, options).plans) {
      const auto product = product_plan(one.plan, model, options.target);
      if (one.plan.recomputed != Recomputed::kNothing && one.plan.recomputed != Recomputed::kLayer) {
        CHECK_FALSE(product.ok());
        continue;
      }
      REQUIRE(product.ok());
      const auto read = parse_plan(to_json(*product), "plan.json");
      REQUIRE(read.ok());
      const auto back = uniform_plan(*read, model, options.target);
      CAPTURE(name, words_of(one.plan), recompute_words(one.plan, shape));
      REQUIRE(back.ok());
      CHECK(words_of(*back) == words_of(one.plan));
      CHECK(recompute_words(*back, shape) == recompute_words(one.plan, shape));
    }
  }
}

TEST_CASE("plans that are not uniform are refused with the reason") {
  const Model model = *gpt_model(small_sizes(), "small");
  Plan plan = *product_plan(as_run(sixteen(), Target::kMegatron), model, Target::kMegatron);
  Plan recomputes = plan;
  recomputes.stages[1].segments[0].recompute = {recomputes.stages[1].segments[0].operators};
  auto read = uniform_plan(recomputes, model, Target::kMegatron);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().message.find("stage 1") != std::string::npos);
  plan.stages[2].segments[0].tp = 1;
  read = uniform_plan(plan, model, Target::kMegatron);
  REQUIRE_FALSE(read.ok());
  CHECK(read.error().message.find("not uniform") != std::string::npos);
}

TEST_CASE("Megatron-LM is told in its own options") {
  UniformPlan plan = sixteen();
  CHECK(line_of(plan, Target::kMegatron) ==
        "--global-batch-size 16 --micro-batch-size 1 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 "
        "--use-distributed-optimizer --sequence-parallel --overlap-grad-reduce --ddp-bucket-size 40000000 "
        "--overlap-param-gather --bf16");
  plan.recomputed = Recomputed::kAttentionCore;
  plan.precision = Precision::kFloat8;
  const std::string line = line_of(plan, Target::kMegatron);
  CHECK(line.find("--recompute-granularity selective --recompute-modules core_attn") != std::string::npos);
  CHECK(line.find("--bf16 --fp8-format hybrid --fp8-param-gather") != std::string::npos);
  plan.sharded = Sharded::kNothing;
  CHECK(line_of(plan, Target::kMegatron).find("--fp8-param-gather") == std::string::npos);
  plan.recomputed = Recomputed::kHalfOfProducts;
  CHECK(line_of(plan, Target::kMegatron).find("parts of them") != std::string::npos);
}

TEST_CASE("torchtitan is told its policy of recomputation last") {
  UniformPlan plan = sixteen();
  plan.sharded = Sharded::kParameters;
  plan.recomputed = Recomputed::kHalfOfProducts;
  const std::string line = line_of(plan, Target::kTorchtitan);
  CHECK(line.ends_with(
      "--parallelism.fsdp_reshard_after_forward always --compile.enable activation-checkpoint:selective"));
}

TEST_CASE("DeepSpeed is told by its file, and what its model must do by words") {
  UniformPlan plan;
  plan.replicas = 8;
  plan.global_batch = 16;
  plan.sharded = Sharded::kGradients;
  plan.recomputed = Recomputed::kLayer;
  const auto told = tell(as_run(plan, Target::kDeepSpeed), *gpt_model(small_sizes(), "small"), Target::kDeepSpeed);
  REQUIRE(told.ok());
  const auto file = nlohmann::json::parse(told->told.file_text);
  CHECK(file["zero_optimization"]["stage"] == 2);
  CHECK(file["bf16"]["enabled"] == true);
  CHECK(file["gradient_accumulation_steps"] == 2);
  REQUIRE(told->remarks.size() == 1);
  CHECK(told->remarks.front().find("gradient_checkpointing_enable") != std::string::npos);
}

}  // namespace trimtab::estimates
