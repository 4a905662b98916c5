#include <catch2/catch.hpp>

#include "estimates/constants.hpp"
#include "estimates/estimate.hpp"
#include "stage_layers.hpp"
#include "stored_activations.hpp"

namespace trimtab::estimates::memory_test {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

ModelShape llama_8b() {
  return {.name = "Llama-3.1-8B",
          .layers = 32,
          .hidden = 4096,
          .ffn = 14336,
          .heads = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .vocabulary = 128256,
          .sequence = 8192};
}

ModelShape gpt2_small() {
  return {.name = "GPT-2",
          .layers = 12,
          .hidden = 768,
          .ffn = 3072,
          .heads = 12,
          .kv_heads = 12,
          .head_dim = 64,
          .vocabulary = 50257,
          .sequence = 1024,
          .positions = 1024,
          .gated = false,
          .tied = true,
          .rms = false,
          .bias = true};
}

UniformPlan plan(std::int32_t replicas, std::int32_t tensor, std::int32_t stages) {
  return {.replicas = replicas,
          .tensor = tensor,
          .stages = stages,
          .global_batch = 16 * replicas,
          .sequence_parallel = tensor > 1};
}

MemoryEstimate memory(const ModelShape& shape, const UniformPlan& of) {
  const Machine machine = machine_by_name("64xH100", "8x400G").value();
  return estimate_memory(machine, shape, of, Constants{});
}

TEST_CASE("parameters of public models are exact") {
  UniformPlan whole = plan(1, 1, 1);
  whole.framework = Framework::kFsdp;  // pads no vocabulary
  CHECK(stage_parameters(llama_8b(), whole, 0) == 8'030'261'248.0);
  CHECK(stage_parameters(gpt2_small(), whole, 0) == 124'439'808.0);
  ModelShape llama_70b = llama_8b();
  llama_70b.layers = 80;
  llama_70b.hidden = 8192;
  llama_70b.ffn = 28672;
  llama_70b.heads = 64;
  CHECK(stage_parameters(llama_70b, whole, 0) == 70'553'706'496.0);
}

TEST_CASE("stages' parameters add up to the model's, and tied tables are on both ends") {
  for (const Framework framework : {Framework::kMegatron, Framework::kNanotron, Framework::kDeepSpeed}) {
    UniformPlan cut = plan(1, 1, 4);
    cut.framework = framework;
    UniformPlan whole = plan(1, 1, 1);
    whole.framework = framework;
    const ModelShape untied = llama_8b();
    const ModelShape tied = gpt2_small();
    double sum = 0;
    double tied_sum = 0;
    for (std::int32_t stage = 0; stage < 4; ++stage) {
      sum += stage_parameters(untied, cut, stage);
      tied_sum += stage_parameters(tied, cut, stage);
    }
    CHECK(sum == stage_parameters(untied, whole, 0));
    CHECK(tied_sum == stage_parameters(tied, whole, 0) + padded_vocabulary(tied, whole) * tied.hidden);
  }
}

TEST_CASE("nanotron's stages are cut by cost, with the head counted") {
  ModelShape shape = llama_8b();
  shape.layers = 16;
  shape.hidden = 2048;
  shape.ffn = 8192;
  shape.kv_heads = 32;
  shape.head_dim = 64;
  shape.vocabulary = 131072;  // the head costs four layers
  UniformPlan cut = plan(1, 1, 2);
  cut.framework = Framework::kNanotron;
  CHECK(stage_layers(shape, cut, 0) == 11);
  CHECK(stage_layers(shape, cut, 1) == 5);
}

TEST_CASE("embedding and head count as layers where that divides") {
  ModelShape shape = gpt2_small();
  shape.layers = 70;
  const UniformPlan cut = plan(1, 1, 12);
  CHECK(stage_layers(shape, cut, 0) == 5);
  CHECK(stage_layers(shape, cut, 1) == 6);
  CHECK(stage_layers(shape, cut, 11) == 5);
}

// Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", equations 1 to 5 and 6.
TEST_CASE("a layer of 2022 keeps what the published equations say") {
  ModelShape shape = gpt2_small();
  shape.ffn = 4 * shape.hidden;
  UniformPlan of = plan(1, 1, 1);
  of.framework = Framework::kMegatron2021;
  of.fused_attention = false;
  of.microbatch = 4;
  const double sbh = 1024.0 * 4 * 768;
  const double scores = 5.0 * 12 * 1024 / 768;  // 5 a s / h
  CHECK(layer_activations(shape, of).kept == Approx(sbh * (34 + scores)));
  of.tensor = 4;
  CHECK(layer_activations(shape, of).kept == Approx(sbh * (10 + 24.0 / 4 + scores / 4)));
  of.sequence_parallel = true;
  CHECK(layer_activations(shape, of).kept == Approx(sbh / 4 * (34 + scores)));
  of.recomputed = Recomputed::kAttentionCore;
  CHECK(layer_activations(shape, of).kept == Approx(sbh / 4 * 34));
  of.sequence_parallel = false;
  of.recomputed = Recomputed::kLayer;
  CHECK(layer_activations(shape, of).kept == Approx(2 * sbh));
}

TEST_CASE("float8 keeps inputs of products in one byte") {
  UniformPlan whole = plan(1, 1, 1);
  const double bfloat16 = layer_activations(llama_8b(), whole).whole;
  whole.precision = Precision::kFloat8;
  // Of two norms' outputs and the mlp's last input one byte instead of two. Attention keeps its output beside the copy.
  CHECK(bfloat16 - layer_activations(llama_8b(), whole).whole == 8192.0 * (2 * 4096 + 14336 - 4096));
}

TEST_CASE("an activation function of its own keeps what it made") {
  UniformPlan apart = plan(1, 1, 1);
  const double fused = layer_activations(llama_8b(), apart).kept;
  apart.fused_activation = false;
  CHECK(layer_activations(llama_8b(), apart).kept - fused == 8192.0 * 2 * 14336);
  apart.recomputed = Recomputed::kActivations;
  const double recomputed = layer_activations(llama_8b(), apart).kept;
  apart.fused_activation = true;
  CHECK(layer_activations(llama_8b(), apart).kept == recomputed);
}

TEST_CASE("parameters in float8 demand a sharded optimizer: else bfloat16 stays beside them") {
  UniformPlan of = plan(2, 1, 1);
  of.precision = Precision::kFloat8;
  const double whole = memory(llama_8b(), of).stages[0].parameters;
  of.sharded = Sharded::kOptimizer;
  CHECK(whole == 2 * memory(llama_8b(), of).stages[0].parameters);
}

TEST_CASE("MaxText keeps the layer's input and the projections of half of the products") {
  UniformPlan half = plan(1, 1, 1);
  half.recomputed = Recomputed::kHalfOfProducts;
  half.framework = Framework::kMaxText;
  CHECK(layer_activations(llama_8b(), half).kept == 8192.0 * 2 * (4096 + 4096 + 1024 + 1024));
}

TEST_CASE("a stage holds the microbatches of its schedule's warmup") {
  UniformPlan of = plan(1, 1, 4);
  CHECK(microbatches_under_way(of, 0) == 4);
  CHECK(microbatches_under_way(of, 3) == 1);
  of.global_batch = 2;
  CHECK(microbatches_under_way(of, 0) == 2);
  of.global_batch = 16;
  of.chunks = 8;  // warmup of 2 * 3 + 7 * 4 chunks, and one that runs
  CHECK(microbatches_under_way(of, 0) * 8 == Approx(35));
  CHECK(microbatches_under_way(of, 3) * 8 == Approx(29));
}

TEST_CASE("more tensor parallelism, stages, shards or recomputation never need more") {
  const ModelShape shape = llama_8b();
  for (const Framework framework : {Framework::kMegatron, Framework::kNanotron, Framework::kFsdp}) {
    double before = 1e18;
    for (const std::int32_t tensor : {1, 2, 4, 8}) {
      UniformPlan of = plan(8, tensor, 1);
      of.framework = framework;
      const double needed = memory(shape, of).allocated;
      CHECK(needed < before);
      before = needed;
    }
    before = 1e18;
    for (const std::int32_t stages : {1, 2, 4, 8}) {
      UniformPlan of = plan(1, 4, stages);
      of.framework = framework;
      const double needed = memory(shape, of).allocated;
      CHECK(needed < before);
      before = needed;
    }
    before = 1e18;
    for (const auto sharded : {Sharded::kNothing, Sharded::kOptimizer, Sharded::kGradients, Sharded::kParameters}) {
      UniformPlan of = plan(8, 1, 1);
      of.framework = framework;
      of.sharded = sharded;
      const double needed = memory(shape, of).allocated;
      CHECK(needed < before);
      before = needed;
    }
    before = 1e18;
    for (const auto recomputed : {Recomputed::kNothing, Recomputed::kActivations, Recomputed::kLayer}) {
      UniformPlan of = plan(1, 2, 4);
      of.framework = framework;
      of.recomputed = recomputed;
      const double needed = memory(shape, of).allocated;
      CHECK(needed <= before);
      before = needed;
    }
  }
}

TEST_CASE("an estimate is that of its fullest stage") {
  for (const std::int32_t stages : {1, 2, 8}) {
    const MemoryEstimate of = memory(llama_8b(), plan(2, 2, stages));
    REQUIRE(of.stages.size() == static_cast<std::size_t>(stages));
    CHECK(of.allocated == of.stages[static_cast<std::size_t>(of.fullest)].allocated());
    CHECK(of.first_allocated == of.stages[0].allocated());
    CHECK(of.reserved >= of.allocated);
    CHECK(of.process > of.reserved);
  }
}

TEST_CASE("copies of a sharded group change no device's states, with context parallelism, too") {
  for (const Framework framework : {Framework::kCompiledFsdp, Framework::kFsdp, Framework::kMegatron}) {
    for (const std::int32_t context : {1, 2, 4}) {
      UniformPlan whole = plan(8 / context, 1, 1);
      whole.framework = framework;
      whole.context = context;
      whole.sharded = Sharded::kParameters;
      UniformPlan copied = whole;
      copied.replicas *= 2;
      copied.global_batch *= 2;
      copied.sharded_over = 8;
      const MemoryEstimate one = memory(llama_8b(), whole);
      const MemoryEstimate two = memory(llama_8b(), copied);
      INFO("context " << context);
      CHECK(two.stages[0].parameters == one.stages[0].parameters);
      CHECK(two.stages[0].gradients == one.stages[0].gradients);
      CHECK(two.stages[0].optimizer == one.stages[0].optimizer);
    }
  }
}

TEST_CASE("a plan fits a larger memory sooner") {
  Machine machine = machine_by_name("64xH100", "8x400G").value();
  const UniformPlan of = plan(8, 2, 1);
  double before = -1;
  for (const double gib : {20, 70, 90, 110, 200}) {
    machine.gpu.memory = static_cast<Bytes>(gib * kGiB);
    const double chance = estimate_memory(machine, llama_8b(), of, Constants{}).fits;
    CHECK(chance >= before);
    before = chance;
  }
  CHECK(before > 0.99);
  machine.gpu.memory = static_cast<Bytes>(20 * kGiB);
  CHECK(estimate_memory(machine, llama_8b(), of, Constants{}).fits < 0.01);
}

}  // namespace
}  // namespace trimtab::estimates::memory_test
