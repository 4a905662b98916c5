#pragma once

// A plan in which all stages have equal layers and all layers are run in the same way: how people write plans of large
// models, and what an estimate can price before anything is measured. A measured plan is trimtab::Plan. Plain values.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "estimates/model_shape.hpp"

namespace trimtab::estimates {

// What is divided over replicas: ZeRO's stages 0 to 3.
enum class Sharded : std::uint8_t { kNothing, kOptimizer, kGradients, kParameters };

// What is computed again in the backward pass, in each of the recomputed layers.
enum class Recomputed : std::uint8_t {
  kNothing,
  kAttentionCore,   // scores, softmax and their product with the values (Korthikanti et al. 2022, "selective")
  kActivations,     // norms and the mlp's activation function
  kHalfOfProducts,  // PyTorch's selective checkpoint by operator: every second matrix product and all that is cheap
  kLayer,           // all but the layer's input
};

enum class Precision : std::uint8_t { kFloat16, kBfloat16, kFloat8 };

// Whose code runs the plan. What a framework keeps for the backward pass, fuses and overlaps follows from it
// (estimates/framework.hpp).
enum class Framework : std::uint8_t {
  kMegatron,      // Megatron-Core with Transformer Engine, of 2024 and later
  kMegatron2022,  // Megatron-LM of 2022: attention not fused, fp16 or bf16 by hand
  kMegatron2021,  // Megatron-LM of 2021, and Megatron-DeepSpeed: gradients are added up by a kernel of its own, too
  kNanotron,
  kFsdp,          // PyTorch's FSDP around eager modules: Composer, InternEvo, transformers
  kCompiledFsdp,  // FSDP around compiled modules: torchtitan, fms-fsdp
  kDeepSpeed,
  kMaxText,  // JAX
};

struct UniformPlan {
  std::int32_t replicas = 1;      // dp
  std::int32_t tensor = 1;        // tp
  std::int32_t stages = 1;        // pp
  std::int32_t chunks = 1;        // of a stage: interleaved 1F1B if above 1 (vpp)
  std::int32_t context = 1;       // cp
  std::int32_t microbatch = 1;    // samples of one replica at once
  std::int32_t global_batch = 1;  // samples of a step
  Sharded sharded = Sharded::kNothing;
  std::int32_t sharded_over = 0;   // devices of dp x cp that share one copy; 0 = all (HSDP if fewer)
  bool reshard = true;             // parameters are gathered again in the backward pass (kParameters)
  bool sequence_parallel = false;  // of tensor-parallel groups
  Recomputed recomputed = Recomputed::kNothing;
  double recomputed_share = 1;  // of the layers
  Precision precision = Precision::kBfloat16;
  bool rowwise_scales = false;        // of float8: a scale for each row, and nothing is gathered in it (torchao)
  std::int32_t gradient_bytes = 4;    // of one parameter's gradient, as it is accumulated and reduced
  std::int32_t optimizer_bytes = 12;  // of one parameter: master copy and two moments of float32
  bool flash2 = false;                // FlashAttention-2's kernels even where newer ones exist (Hopper and later)
  bool fused_attention = true;        // flash attention
  bool fused_activation = true;       // of the mlp, and the product with it (Megatron: --no-bias-swiglu-fusion)
  bool fused_accumulation = true;     // products add to gradients (Megatron: --no-gradient-accumulation-fusion)
  bool switch_sums = true;            // where switches can (NCCL: not with NCCL_ALGO=Ring or NCCL_NVLS_ENABLE=0)
  // FSDP: cross entropy is compiled, so no logits of float32 (torchtitan since 2025). Megatron:
  // --cross-entropy-loss-fusion, counted in time, not in memory.
  bool compiled_loss = false;
  bool overlaps_tensor = false;      // tensor-parallel communication beside matrix products
  bool overlaps_transfers = false;   // stages' transfers beside computation
  bool overlaps_gradients = true;    // their reduction beside the last backward pass
  bool overlaps_parameters = true;   // their gathering beside the forward pass
  double offloaded_activations = 0;  // share that waits in the host's memory
  bool offloaded_optimizer = false;
  Framework framework = Framework::kMegatron;

  [[nodiscard]] std::int32_t devices() const { return replicas * tensor * stages * context; }
  [[nodiscard]] std::int32_t microbatches() const { return global_batch / (microbatch * replicas); }
};

// Ok, or the first rule that the plan breaks: degrees that do not divide the model's heads or layers, a batch that the
// microbatches do not divide, an interleaved schedule whose microbatches its stages do not divide.
[[nodiscard]] Status check(const UniformPlan& plan, const ModelShape& shape);

}  // namespace trimtab::estimates
