#pragma once

// Frameworks that a plan is found for, and what each can vary of a uniform plan. Pure: any thread.
//
// megatron    Megatron-Core with Transformer Engine. ZeRO-1 is its distributed optimizer, ZeRO-2 and 3 are
// Megatron-FSDP,
//             which here has no pipeline. Its selective recomputation of a dense layer is that of attention's core.
// torchtitan  0.3: every layer or none is recomputed, or every second matrix product ("selective").
// fsdp2       replicas alone, as trimtab.parallel runs them.
// deepspeed   replicas alone, by its configuration file. The model's code says what is recomputed.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "estimates/hardware.hpp"
#include "estimates/model_shape.hpp"
#include "estimates/uniform_plan.hpp"

namespace trimtab::estimates {

enum class Target : std::uint8_t { kMegatron, kTorchtitan, kFsdp2, kDeepSpeed };

[[nodiscard]] std::vector<std::string_view> target_names();
[[nodiscard]] std::string_view name_of(Target target);
[[nodiscard]] Result<Target> target_by_name(std::string_view name);

// How parameters, gradients and the optimizer's states are divided.
struct Sharding {
  Sharded level = Sharded::kNothing;
  bool reshard = true;  // of kParameters
};

struct TargetSpace {
  Framework framework = Framework::kMegatron;
  bool splits_models = false;  // tensor, context and pipeline parallelism
  std::vector<Sharding> shardings;
  std::vector<Recomputed> recomputed;
  bool recomputes_some_layers = false;  // kLayer of a part of them
  bool offloads_optimizer = false;      // where its states are sharded
};
[[nodiscard]] const TargetSpace& space_of(Target target);

// The plan with what the target decides by itself: framework, sequence parallelism, what overlaps. Knobs stay.
[[nodiscard]] UniformPlan as_run(UniformPlan plan, Target target);

// The first knob that the target does not run so, in words; ok where it runs the plan. check() is another question.
[[nodiscard]] Status check_target(const UniformPlan& plan, const ModelShape& shape, Target target);

}  // namespace trimtab::estimates
