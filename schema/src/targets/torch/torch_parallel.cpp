// PyTorch's own data parallelism. DistributedDataParallel and FullyShardedDataParallel read no file; this one has their
// parameters by their names and is read by client/python/trimtab/parallel.py.

#include "documents/json_document.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

namespace {

constexpr double kMib = 1 << 20;
constexpr std::int64_t kUsualBucket = 25 << 20;  // PyTorch's own

void check_common(const PlanLayers& view, Complaints& complaints) {
  need_replicas(view, false, complaints);
  need_whole_layers_recomputed(view, complaints);
}

void check_ddp(const PlanLayers& view, Complaints& complaints) {
  check_common(view, complaints);
  need_known_knobs(view, {kBucketKnob}, complaints);
  (void)bytes_knob(view, kBucketKnob, complaints);
  const OperatorSetting& first = view.operators.front();
  if (first.sharded != ShardedLevel::kNone && first.sharded != ShardedLevel::kOptimizer) {
    complaints.push_back(place_of(first) + ".sharded: must be none or optimizer; target fsdp shards more");
  }
  need_sharding_over_all(view, complaints);
}

void check_fsdp(const PlanLayers& view, Complaints& complaints) {
  check_common(view, complaints);
  need_known_knobs(view, {}, complaints);
  need_fsdp_level(view, "target ddp shards the optimizer", complaints);
}

OrderedJson common(const PlanLayers& view, const char* kind) {
  const std::int32_t dp = view.operators.front().dp;
  return {{"schema", "trimtab.parallel/1"},
          {"kind", kind},
          {"world_size", dp},
          {"global_batch", view.plan->global_batch},
          {"samples_per_microbatch", samples_of_replica(view)},
          {"accumulation_steps", view.plan->microbatches()},
          {"layers", view.parts.layers.size()},
          {"checkpoint_layers", view.recomputed_layers()}};
}

ExportedPlan write_ddp(const PlanLayers& view) {
  Complaints none;
  OrderedJson json = common(view, "ddp");
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, none);
  if (bytes > 0) json["bucket_cap_mb"] = static_cast<double>(bytes) / kMib;
  json["zero_redundancy_optimizer"] = view.operators.front().sharded == ShardedLevel::kOptimizer;
  return {{}, "ddp.json", json.dump(2) + "\n"};
}

const char* strategy_of(const OperatorSetting& setting) {
  const bool hybrid = setting.sharded_degree < setting.dp;
  switch (setting.sharded) {
    case ShardedLevel::kParameters:
      return hybrid ? "HYBRID_SHARD" : "FULL_SHARD";
    case ShardedLevel::kGradients:
      return hybrid ? "_HYBRID_SHARD_ZERO2" : "SHARD_GRAD_OP";
    default:
      return "NO_SHARD";
  }
}

// fully_shard over a mesh of shard_group_size ranks, and of replicas where that is not all.
ExportedPlan write_fsdp2(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  OrderedJson json = common(view, "fsdp2");
  json["reshard_after_forward"] = first.sharded == ShardedLevel::kParameters;
  json["shard_group_size"] = first.sharded_degree;
  return {{}, "fsdp2.json", json.dump(2) + "\n"};
}

ExportedPlan write_fsdp(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  OrderedJson json = common(view, "fsdp");
  json["sharding_strategy"] = strategy_of(first);
  json["shard_group_size"] = first.sharded == ShardedLevel::kNone ? 1 : first.sharded_degree;
  return {{}, "fsdp.json", json.dump(2) + "\n"};
}

std::vector<TargetKnob> common_knobs() {
  return {{"global_batch", "global_batch: samples_per_microbatch * accumulation_steps * ranks"},
          {"microbatch", "samples_per_microbatch of one rank, accumulation_steps under no_sync()"},
          {"segments.dp", "every rank; one stage"},
          {"segments.recompute", "checkpoint_layers: whole layers, under torch.utils.checkpoint"}};
}

TargetEntry sharded_entry(std::string_view name) {
  TargetEntry entry;
  entry.name = name;
  entry.knobs = common_knobs();
  entry.limits.sharded = Reach::kJob;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  entry.limits.partial_shards = true;
  entry.limits.recompute = Reach::kLayer;
  entry.limits.live = true;
  entry.check = check_fsdp;
  return entry;
}

}  // namespace

TargetEntry ddp_target() {
  TargetEntry entry;
  entry.name = "ddp";
  entry.knobs = common_knobs();
  entry.knobs.push_back({"segments.sharded", "optimizer: ZeroRedundancyOptimizer"});
  entry.knobs.push_back({"target_knobs.bucket_bytes", "bucket_cap_mb of DistributedDataParallel"});
  entry.limits.sharded = Reach::kJob;
  entry.limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer};
  entry.limits.bucket_bytes = kUsualBucket;
  entry.limits.recompute = Reach::kLayer;
  entry.limits.live = true;
  entry.check = check_ddp;
  entry.write = write_ddp;
  return entry;
}

TargetEntry fsdp_target() {
  TargetEntry entry = sharded_entry("fsdp");
  entry.knobs.push_back(
      {"segments.sharded", "sharding_strategy: none NO_SHARD, gradients SHARD_GRAD_OP, parameters FULL_SHARD"});
  entry.knobs.push_back(
      {"segments.sharded_degree",
       "less than dp: _HYBRID_SHARD_ZERO2 or HYBRID_SHARD over groups of so many ranks (PyTorch 2.0)"});
  entry.write = write_fsdp;
  return entry;
}

TargetEntry fsdp2_target() {
  TargetEntry entry = sharded_entry("fsdp2");
  entry.limits.live_levels = {ShardedLevel::kGradients, ShardedLevel::kParameters};
  entry.knobs.push_back({"segments.sharded",
                         "reshard_after_forward of fully_shard: gradients false, parameters true; none: one rank of "
                         "the mesh to shard over"});
  entry.knobs.push_back({"segments.sharded_degree", "less than dp: a mesh of replicas and shards (HSDP)"});
  entry.write = write_fsdp2;
  return entry;
}

}  // namespace trimtab
