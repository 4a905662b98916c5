#include "framework.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trimtab::estimates {

namespace {

// hidden_bytes: two norms (read, write), two residual sums (read twice, write) are 10 elements of two bytes. With
// dropout a mask of one byte is written in each sum. A norm and the sum before it in one kernel save two elements.
// ffn_bytes: silu and product in one kernel read two and write one; as two kernels read and write five.
// accumulated_bytes: nanotron/optim/gradient_accumulator.py adds 16 bits to 32. PyTorch reads twice and writes.
// bucket: DistributedDataParallelConfig.bucket_size and distributed_data_parallel.py of megatron/core/distributed;
// ddp_bucket_cap_mb of nanotron/config/config.py, of 16-bit gradients.
// loss_bytes: Megatron's six kernels forward (to 32 bits, largest, less it, exp, sum, quotient) and two backward
// (megatron/core/tensor_parallel/cross_entropy.py). With --cross-entropy-loss-fusion three and one.
// heads_bytes: a rotation in one kernel reads and writes once; in PyTorch's own operators about four times.
FrameworkTraits usual_traits(Framework framework) {
  switch (framework) {
    case Framework::kMegatron:
      return {.host = HostWork::kFused,
              .hidden_bytes = 20,
              .ffn_bytes = 6,
              .heads_bytes = 4,
              .loss_bytes = 52,
              .overlaps_backward = true,
              .bucket = 40e6,
              .bucket_of_replica = 1e6,
              .norms_cast = true,
              .newest_attention = true};
    case Framework::kMegatron2022:  // fuses the addition of gradients since February 2022
      return {.host = HostWork::kFused,
              .hidden_bytes = 22,
              .ffn_bytes = 4,
              .heads_bytes = 0,
              .loss_bytes = 52,
              .overlaps_backward = true,
              .scatters_gradients = false};
    case Framework::kMegatron2021:
      return {.host = HostWork::kFused,
              .hidden_bytes = 22,
              .ffn_bytes = 4,
              .heads_bytes = 0,
              .accumulated_bytes = 6,
              .loss_bytes = 52,
              .scatters_gradients = false};
    case Framework::kNanotron:
      return {.host = HostWork::kEager,
              .hidden_bytes = 20,
              .ffn_bytes = 10,
              .heads_bytes = 4,
              .accumulated_bytes = 10,
              .loss_bytes = 30,
              .overlaps_own_share = true,
              .bucket = 25 * 1024.0 * 1024 / 2};
    case Framework::kFsdp:
      return {.host = HostWork::kEager, .hidden_bytes = 24, .ffn_bytes = 10, .heads_bytes = 8, .loss_bytes = 30};
    case Framework::kCompiledFsdp:
      return {.host = HostWork::kCompiled,
              .hidden_bytes = 16,
              .ffn_bytes = 6,
              .heads_bytes = 4,
              .loss_bytes = 20,
              .hides_columns_backward = false};
    case Framework::kDeepSpeed:
      return {.host = HostWork::kEager, .hidden_bytes = 24, .ffn_bytes = 10, .heads_bytes = 16, .loss_bytes = 30};
    case Framework::kMaxText:
      return {.host = HostWork::kCompiled,
              .hidden_bytes = 16,
              .ffn_bytes = 6,
              .heads_bytes = 4,
              .loss_bytes = 16,
              .newest_attention = true};
  }
  TRIMTAB_ASSERT(false, "a framework of the list");
  return {};
}

}  // namespace

FrameworkTraits traits_of(const UniformPlan& plan) {
  FrameworkTraits traits = usual_traits(plan.framework);
  if (plan.framework == Framework::kMegatron && plan.compiled_loss) traits.loss_bytes = 28;
  if (!plan.fused_activation) traits.ffn_bytes = std::max(traits.ffn_bytes, 10.0);
  if (!plan.fused_accumulation) {  // a gradient of 16 bits is written, and added
    traits.accumulated_bytes = std::max(traits.accumulated_bytes, 2.0 + 2 * plan.gradient_bytes);
  }
  return traits;
}

}  // namespace trimtab::estimates
