#include <catch2/catch.hpp>

#include "estimates/constants.hpp"
#include "estimates/estimate.hpp"

namespace trimtab::estimates {
namespace {

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

UniformPlan plan(std::int32_t replicas, std::int32_t tensor, std::int32_t stages) {
  return {.replicas = replicas,
          .tensor = tensor,
          .stages = stages,
          .global_batch = 128,
          .sharded = Sharded::kOptimizer,
          .sequence_parallel = tensor > 1};
}

double seconds(const char* devices, const char* network, const ModelShape& shape, const UniformPlan& of) {
  const Machine machine = machine_by_name(devices, network).value();
  REQUIRE(check(of, shape).ok());
  REQUIRE(of.devices() == machine.devices);
  return estimate(machine, shape, of).step_s;
}

TEST_CASE("no plan is faster than its work perfectly shared at the peak") {
  const ModelShape shape = llama_8b();
  const Machine machine = machine_by_name("16xH100", "8x400G").value();
  for (const UniformPlan& one : {plan(16, 1, 1), plan(4, 4, 1), plan(2, 8, 1), plan(4, 2, 2), plan(2, 2, 4)}) {
    const double least = sample_flops(shape, true) * one.global_batch / one.devices() / machine.gpu.half_flops;
    CHECK(estimate(machine, shape, one).step_s > least);
  }
}

TEST_CASE("a better network, a better GPU and hidden communication never make a plan slower") {
  const ModelShape shape = llama_8b();
  for (const UniformPlan& one : {plan(16, 1, 1), plan(4, 4, 1), plan(1, 16, 1), plan(4, 2, 2), plan(2, 2, 4)}) {
    CHECK(seconds("16xH100", "8x400G", shape, one) <= seconds("16xH100", "8x100G", shape, one));
    CHECK(seconds("16xH200", "8x400G", shape, one) <= seconds("16xH100", "8x400G", shape, one));
    CHECK(seconds("16xH100", "8x400G", shape, one) < seconds("16xA100", "8x400G", shape, one));
    UniformPlan exposed = one;
    exposed.overlaps_gradients = exposed.overlaps_parameters = false;
    CHECK(seconds("16xH100", "8x400G", shape, one) <= seconds("16xH100", "8x400G", shape, exposed));
  }
}

TEST_CASE("a product hides communication beside it where its blocks find a place meanwhile") {
  const ModelShape shape = llama_8b();
  const auto exposed = [&shape](const char* devices, Framework framework) {
    UniformPlan of = plan(4, 4, 1);
    of.framework = framework;
    return estimate(machine_by_name(devices, "8x400G").value(), shape, of).parts.tensor;
  };
  const double ampere = exposed("16xA100", Framework::kMegatron2022) / exposed("16xA100", Framework::kMegatron2021);
  const double hopper = exposed("16xH100", Framework::kMegatron2022) / exposed("16xH100", Framework::kMegatron2021);
  CHECK(ampere < 0.75);
  CHECK(hopper > ampere);
  CHECK(hopper <= 1);
}

TEST_CASE("gradients in buckets wait for the network once a bucket") {
  const ModelShape shape = llama_8b();
  const Machine machine = machine_by_name("256xH100", "8x400G EFA").value();
  UniformPlan of = plan(64, 4, 1);
  of.sharded = Sharded::kNothing;
  of.framework = Framework::kNanotron;
  const double buckets = estimate(machine, shape, of).parts.gradients;
  of.overlaps_gradients = false;
  const double at_once = estimate(machine, shape, of).parts.gradients;
  of.framework = Framework::kDeepSpeed;
  CHECK(estimate(machine, shape, of).parts.gradients == at_once);
  of.overlaps_gradients = true;
  CHECK(buckets > estimate(machine, shape, of).parts.gradients);
}

StepParts parts_of(UniformPlan of, Precision precision, bool rowwise = false) {
  of.precision = precision;
  of.rowwise_scales = rowwise;
  return estimate(machine_by_name("16xH100", "8x400G").value(), llama_8b(), of).parts;
}

TEST_CASE("products' inputs are gathered in float8, what is scattered is not") {
  UniformPlan of = plan(4, 4, 1);
  of.framework = Framework::kFsdp;  // nothing of it is hidden: ten collectives of a layer, six of them gathers
  const double whole = parts_of(of, Precision::kBfloat16).tensor;
  CHECK(parts_of(of, Precision::kFloat8).tensor == Approx(0.7 * whole).epsilon(0.05));
  CHECK(parts_of(of, Precision::kFloat8, true).tensor == Approx(whole));
  of.sequence_parallel = false;
  CHECK(parts_of(of, Precision::kFloat8).tensor == Approx(parts_of(of, Precision::kBfloat16).tensor));
}

TEST_CASE("Megatron gathers parameters in float8") {
  UniformPlan of = plan(16, 1, 1);
  of.overlaps_parameters = false;
  for (const Sharded sharded : {Sharded::kOptimizer, Sharded::kParameters}) {
    of.sharded = sharded;
    of.framework = Framework::kMegatron;
    CHECK(parts_of(of, Precision::kFloat8).parameters < 0.75 * parts_of(of, Precision::kBfloat16).parameters);
    of.framework = Framework::kCompiledFsdp;
    CHECK(parts_of(of, Precision::kFloat8).parameters >= 0.99 * parts_of(of, Precision::kBfloat16).parameters);
  }
}

TEST_CASE("casts to float8 take what they read and write") {
  const Machine machine = machine_by_name("16xH100", "8x400G").value();
  UniformPlan of = plan(4, 4, 1);
  const auto bytes = [&machine, &of](double seconds) {  // of a token in a layer
    const double tokens = 8192.0 * 32 * of.microbatches();
    return seconds * machine.gpu.memory_bandwidth * Constants{}.memory_share / tokens;
  };
  // On one of four ranks: queries, keys and values of 1536, attention's output of 1024, 2 x 3584 and 3584 of the mlp.
  const double in = 4096 + 1024 + 4096 + 3584;
  const double out = 1536 + 4096 + 7168 + 4096;
  of.framework = Framework::kCompiledFsdp;
  const double by_rows = parts_of(of, Precision::kFloat8, true).computation;
  CHECK(bytes(by_rows - parts_of(of, Precision::kFloat8).computation) == Approx(4 * in + 4 * out));

  of.framework = Framework::kMegatron;
  const auto gained = [&of](Precision precision) {  // by sequence parallelism
    of.sequence_parallel = false;
    const double whole = parts_of(of, precision).computation;
    of.sequence_parallel = true;
    return whole - parts_of(of, precision).computation;
  };
  // Norms save a quarter of what they did. Behind row-parallel products a quarter of the gradients is cast, and all are
  // transposed.
  const double lost = 0.75 * (4096 + 4096) + (1024 + 3584) - 1.25 * (4096 + 4096);
  CHECK(bytes(gained(Precision::kBfloat16) - gained(Precision::kFloat8)) == Approx(lost).epsilon(1e-6));
}

TEST_CASE("torch.compile hides no sum of several products, and no gathering for a matrix's gradient") {
  UniformPlan of = plan(4, 4, 1);
  of.overlaps_tensor = true;
  const double all = parts_of(of, Precision::kBfloat16).tensor;
  of.framework = Framework::kCompiledFsdp;
  CHECK(parts_of(of, Precision::kBfloat16).tensor > 2 * all);
}

TEST_CASE("what is recomputed takes its time") {
  const ModelShape shape = llama_8b();
  UniformPlan nothing = plan(4, 4, 1);
  UniformPlan core = nothing;
  core.recomputed = Recomputed::kAttentionCore;
  UniformPlan layer = nothing;
  layer.recomputed = Recomputed::kLayer;
  UniformPlan half = layer;
  half.recomputed_share = 0.5;
  const double least = seconds("16xH100", "", shape, nothing);
  CHECK(least < seconds("16xH100", "", shape, core));
  CHECK(seconds("16xH100", "", shape, core) < seconds("16xH100", "", shape, layer));
  CHECK(seconds("16xH100", "", shape, half) < seconds("16xH100", "", shape, layer));
  // A forward pass again is about a third of the work.
  CHECK(seconds("16xH100", "", shape, layer) < 1.45 * least);
}

TEST_CASE("kernels that are not fused take what they read and write, and so do rotations") {
  const Machine machine = machine_by_name("16xH100", "8x400G").value();
  const UniformPlan fused = plan(4, 4, 1);
  const auto bytes = [&machine](const ModelShape& shape, const UniformPlan& of) {  // that computation takes, moved
    return estimate(machine, shape, of).parts.computation * machine.gpu.memory_bandwidth * Constants{}.memory_share;
  };
  const double tokens = 8192.0 * 32 * fused.microbatches();
  const double twice_and_half = 2.5 * Constants{}.fused_moved;  // forward, and backward one and a half as much

  UniformPlan apart = fused;
  apart.fused_activation = false;  // 3584 of the mlp: one value more is written, and read
  CHECK(bytes(llama_8b(), apart) - bytes(llama_8b(), fused) == Approx(twice_and_half * tokens * 4 * 3584));
  apart = fused;
  apart.fused_accumulation = false;
  const double parameters = bytes(llama_8b(), apart) - bytes(llama_8b(), fused);
  CHECK(parameters == Approx(10.0 * 8.03e9 / 4 * fused.microbatches()).epsilon(0.01));
  apart.gradient_bytes = 2;
  CHECK(bytes(llama_8b(), apart) - bytes(llama_8b(), fused) == Approx(0.6 * parameters));

  ModelShape learned = llama_8b();
  learned.positions = 8192;  // queries of 1024, keys and values of 256 are not rotated
  CHECK(bytes(llama_8b(), fused) - bytes(learned, fused) == Approx(twice_and_half * tokens * 4 * 1536));
}

TEST_CASE("sums take longer in rings than in the switch, where there is one that adds") {
  const auto sums = [](const char* devices, bool in_switch) {
    UniformPlan of = plan(4, 4, 1);
    of.sequence_parallel = false;
    of.switch_sums = in_switch;
    return estimate(machine_by_name(devices, "8x400G").value(), llama_8b(), of).parts.tensor;
  };
  CHECK(sums("16xH100", false) > 1.2 * sums("16xH100", true));
  CHECK(sums("16xA100", false) == sums("16xA100", true));
}

TEST_CASE("the bubble is that of 1F1B, and chunks divide it") {
  const ModelShape shape = llama_8b();
  const Machine machine = machine_by_name("4xH100", "").value();
  Constants constants;
  constants.straggling = 0;
  UniformPlan pipeline = plan(1, 1, 4);
  pipeline.global_batch = 16;
  const StepParts whole = estimate(machine, shape, pipeline, constants).parts;
  // Stages are not equal: the last has the head. Filling and draining takes all other stages' time once.
  const double one = (whole.computation + whole.launches) / pipeline.microbatches();
  CHECK(whole.bubble < 3 * one);
  CHECK(whole.bubble > 2 * one);
  pipeline.chunks = 4;
  const StepParts parted = estimate(machine, shape, pipeline, constants).parts;
  CHECK(parted.bubble == Approx(whole.bubble / 4));
}

TEST_CASE("small kernels are limited by the host that launches them") {
  ModelShape small = llama_8b();
  small.hidden = 512;
  small.ffn = 1024;
  small.heads = small.kv_heads = 8;
  small.head_dim = 64;
  small.sequence = 512;
  UniformPlan one = plan(8, 1, 1);
  one.framework = Framework::kFsdp;
  const Machine machine = machine_by_name("8xH100", "").value();
  const StepParts parts = estimate(machine, small, one).parts;
  CHECK(parts.launches > parts.computation);
  // Twice the samples at once cost the host nothing more.
  UniformPlan two = one;
  two.microbatch = 2;
  CHECK(estimate(machine, small, two).step_s < 0.6 * estimate(machine, small, one).step_s);
}

TEST_CASE("a plan that cannot be is refused") {
  const ModelShape shape = llama_8b();
  const auto refused = [&](auto change) {
    UniformPlan one = plan(4, 2, 2);
    change(one);
    return !check(one, shape).ok();
  };
  CHECK_FALSE(refused([](UniformPlan&) {}));
  CHECK(refused([](UniformPlan& one) { one.tensor = 3; }));
  CHECK(refused([](UniformPlan& one) { one.stages = 33; }));
  CHECK(refused([](UniformPlan& one) { one.microbatch = 0; }));
  CHECK(refused([](UniformPlan& one) { one.microbatch = 3; }));
  CHECK(refused([](UniformPlan& one) { one.chunks = 17; }));
  CHECK(refused([](UniformPlan& one) { one.context = 3; }));
  CHECK(refused([](UniformPlan& one) { one.sharded_over = 3; }));
  CHECK(refused([](UniformPlan& one) { one.recomputed_share = -1; }));
  CHECK(refused([](UniformPlan& one) {
    one.chunks = 2;
    one.global_batch = 4;  // one microbatch over two stages
  }));
}

}  // namespace
}  // namespace trimtab::estimates
