#include "framework_memory.hpp"

#include <algorithm>

namespace trimtab::estimates {
namespace {

// Transformer Engine's modules and Megatron-Core's fused operators.
FrameworkMemory megatron(const UniformPlan& plan) {
  FrameworkMemory framework;
  framework.activation_product = plan.fused_activation ? 1 : 2;
  framework.float8_inputs = plan.precision == Precision::kFloat8;
  // Float8 and its transpose. Parameters in float8 demand a sharded optimizer (--fp8-param-gather).
  if (framework.float8_inputs && plan.sharded == Sharded::kNothing) framework.weight_bytes = 4;
  framework.dropout = true;
  framework.pads_vocabulary = true;
  framework.kept_weight_gradients = true;
  framework.optimizer_over_context = true;
  framework.embedding_bytes = 1;
  return framework;
}

// With DeepSpeed's ZeRO where something is sharded: its step copies gradients into flat buffers.
FrameworkMemory megatron_2021(const UniformPlan& plan) {
  FrameworkMemory framework;
  framework.dropout = true;
  framework.pads_vocabulary = true;
  framework.activation_product = 2;
  framework.embedding_bytes = 1;
  framework.loads_all_kernels = true;
  if (plan.sharded == Sharded::kNothing) return framework;
  framework.groups_per_degree = 2;
  framework.embedding_bytes += plan.stages > 1 ? 2.0 / plan.tensor : 0;
  framework.bucket_elements = plan.gradient_bytes == 2 ? 1e9 : 5e8;
  if (plan.gradient_bytes == 2) framework.update_bytes = std::max(0, 18 - plan.optimizer_bytes);
  if (plan.gradient_bytes == 4) framework.half_gradient_bytes = 2;
  return framework;
}

FrameworkMemory nanotron(const UniformPlan& plan) {
  FrameworkMemory framework;
  framework.half_gradient_bytes = 2;
  framework.activation_product = 2;
  framework.head_counts = true;
  framework.logit_forward_bytes = 10;  // bfloat16, float32, and float32 less the largest
  framework.row_outputs = 2;
  framework.gathers_flat = true;
  if (plan.sharded == Sharded::kNothing && plan.replicas > 1) framework.bucket_bytes = 2;
  return framework;
}

FrameworkMemory fsdp(const UniformPlan& plan) {
  FrameworkMemory framework;
  framework.weight_bytes = 0;
  // InternEvo's, whose gradients are bfloat16: weights, gradients of float32, two temporaries of Adam's
  if (plan.gradient_bytes == 2 && plan.optimizer_bytes >= 12) framework.update_bytes = 14;
  framework.activation_product = 2;
  framework.expands_kv = true;
  framework.optimizer_over_context = true;
  framework.logit_forward_bytes = 10;   // bfloat16, float32 and its logarithms of softmax
  framework.logit_backward_bytes = 14;  // bfloat16, the logarithms, and two gradients of float32
  if (plan.tensor > 1) framework.logit_forward_bytes = 14, framework.logit_backward_bytes = 18;  // loss parallel
  if (plan.compiled_loss) framework.logit_forward_bytes = framework.logit_backward_bytes = 4;
  return framework;
}

FrameworkMemory compiled_fsdp(const UniformPlan& plan) {
  FrameworkMemory framework = fsdp(plan);
  framework.update_bytes = 0;
  framework.activation_product = 1;
  framework.expands_kv = false;
  framework.products_kept = false;
  framework.norm_outputs_kept = false;
  return framework;
}

FrameworkMemory maxtext(const UniformPlan& plan) {
  FrameworkMemory framework = compiled_fsdp(plan);
  framework.projections_alone = true;
  framework.logit_forward_bytes = 6;
  framework.logit_backward_bytes = 8;
  return framework;
}

FrameworkMemory deepspeed() {
  FrameworkMemory framework;
  framework.update_bytes = 8;
  framework.activation_product = 2;
  framework.expands_kv = true;
  framework.logit_forward_bytes = 10;
  framework.logit_backward_bytes = 14;
  return framework;
}

}  // namespace

FrameworkMemory framework_memory(const UniformPlan& plan) {
  switch (plan.framework) {
    case Framework::kMegatron:
      return megatron(plan);
    case Framework::kMegatron2022:
    case Framework::kMegatron2021:
      return megatron_2021(plan);
    case Framework::kNanotron:
      return nanotron(plan);
    case Framework::kFsdp:
      return fsdp(plan);
    case Framework::kCompiledFsdp:
      return compiled_fsdp(plan);
    case Framework::kMaxText:
      return maxtext(plan);
    case Framework::kDeepSpeed:
      return deepspeed();
  }
  return megatron(plan);
}

}  // namespace trimtab::estimates
