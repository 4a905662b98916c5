#pragma once

// A plan layer by layer, as frameworks see it, the checks that several targets share, and what target.cpp's table holds
// for each of them. Pure.

#include <functional>

#include "schema/models/parameters.hpp"
#include "schema/target.hpp"

namespace trimtab {

struct OperatorSetting {
  std::int32_t stage = 0;
  std::int32_t segment = 0;
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  ShardedLevel sharded = ShardedLevel::kNone;
  std::int32_t sharded_degree = 1;  // 1 = not sharded
  bool tp_consecutive = true;
  bool recompute = false;
};

// What is found wrong, a line each, in the words of plan.json.
using Complaints = std::vector<std::string>;

struct PlanLayers {
  const Plan* plan = nullptr;
  const Model* model = nullptr;
  ModelLayers parts;
  std::vector<OperatorSetting> operators;

  [[nodiscard]] const OperatorSetting& first_of(const Range& layer) const { return operators[layer.begin]; }
  [[nodiscard]] bool recomputed(const Range& range) const;  // all of it, and it is not empty
  [[nodiscard]] bool kept(const Range& range) const;        // none of it is recomputed
  [[nodiscard]] std::vector<std::int32_t> recomputed_layers() const;
  // Layers that begin in each stage.
  [[nodiscard]] std::vector<std::int32_t> layers_by_stage() const;
};

[[nodiscard]] Result<PlanLayers> plan_layers(const Plan& plan, const Model& model);

[[nodiscard]] std::string stage_place(std::size_t stage);            // "stages[1]"
[[nodiscard]] std::string place_of(const OperatorSetting& setting);  // "stages[1].segments[0]"
// In order, each with its place, until one of them gives false.
void each_segment(const Plan& plan, const std::function<bool(const std::string& place, const Segment&)>& visit);

// Each adds to the complaints what it is named for.
void need_devices_in_order(const PlanLayers& view, bool interleaved, Complaints& complaints);
void need_equal_stages(const PlanLayers& view, Complaints& complaints);
void need_one_stage(const PlanLayers& view, Complaints& complaints);
void need_cuts_between_layers(const PlanLayers& view, Complaints& complaints);
// The same dp, tp, cp and sharding of every operator.
void need_one_split(const PlanLayers& view, Complaints& complaints);
// Where states are sharded, over all replicas.
void need_sharding_over_all(const PlanLayers& view, Complaints& complaints);
void need_no_tensor_parallel(const PlanLayers& view, Complaints& complaints);
void need_whole_microbatches(const PlanLayers& view, Complaints& complaints);
void need_blocking_transfers(const PlanLayers& view, Complaints& complaints);
void need_no_alternate_dimension(const PlanLayers& view, Complaints& complaints);
// All of H3T's but, where `optimizer` says so, offload_optimizer.
void need_no_switches(const PlanLayers& view, bool optimizer, Complaints& complaints);
void need_no_recompute_outside_layers(const PlanLayers& view, Complaints& complaints);
void need_whole_layers_recomputed(const PlanLayers& view, Complaints& complaints);
// Interleaved stages on two groups of devices or more, as many on each.
void need_equal_rounds(const PlanLayers& view, Complaints& complaints);
// Every knob of the plan's target_knobs is among these.
void need_known_knobs(const PlanLayers& view, const std::vector<std::string>& known, Complaints& complaints);

// Stages until the first devices come again.
[[nodiscard]] std::int32_t pipeline_groups(const Plan& plan);
// Optimizer states go to the host in every segment, or in none.
[[nodiscard]] bool offloads_optimizer(const Plan& plan);
// target_knobs' values; a complaint where it is of another type.
[[nodiscard]] bool flag_knob(const PlanLayers& view, const std::string& name, Complaints& complaints);
[[nodiscard]] std::int64_t bytes_knob(const PlanLayers& view, const std::string& name, Complaints& complaints);
// The same of target_knobs.bucket_bytes, in elements of the model's dtype; 0 = not set, or a complaint.
inline constexpr const char* kBucketKnob = "bucket_bytes";
inline constexpr const char* kSequenceKnob = "sequence_parallel";
[[nodiscard]] std::int64_t bucket_elements(const PlanLayers& view, Complaints& complaints);

// What Megatron-LM calls the mlp of a layer.
[[nodiscard]] inline bool is_mlp(const Operator& op) {
  return op.kind == "mlp" || op.kind == "feedforward";
}

struct TargetEntry {
  std::string_view name;
  std::vector<TargetKnob> knobs;
  TargetLimits limits;
  void (*check)(const PlanLayers& view, Complaints& complaints);
  ExportedPlan (*write)(const PlanLayers& view);  // REQUIRES: check() has nothing to say
};

[[nodiscard]] TargetEntry trainer_target();
[[nodiscard]] TargetEntry megatron_target();
[[nodiscard]] TargetEntry deepspeed_target();
[[nodiscard]] TargetEntry galvatron_target();
[[nodiscard]] TargetEntry ddp_target();
[[nodiscard]] TargetEntry fsdp_target();
[[nodiscard]] TargetEntry fsdp2_target();
[[nodiscard]] TargetEntry pipelining_target();
[[nodiscard]] TargetEntry torchtitan_target();
[[nodiscard]] TargetEntry torchtitan_toml_target();
[[nodiscard]] TargetEntry accelerate_target();
[[nodiscard]] TargetEntry accelerate_deepspeed_target();
[[nodiscard]] TargetEntry lightning_target();
[[nodiscard]] TargetEntry lightning_deepspeed_target();
[[nodiscard]] TargetEntry transformers_target();
[[nodiscard]] TargetEntry transformers_deepspeed_target();

}  // namespace trimtab
