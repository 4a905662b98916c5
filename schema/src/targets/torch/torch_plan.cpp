// What trimtab.parallel reads (ddp.json, fsdp.json, fsdp2.json), read back: the inverse of torch_parallel.cpp.

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text_parts.hpp"
#include "targets/plan_readers.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

namespace {

constexpr const char* kBucketMib = "bucket_cap_mb";
constexpr const char* kStrategy = "sharding_strategy";
constexpr const char* kGroup = "shard_group_size";
constexpr std::string_view kSchema = "trimtab.parallel/1";

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY(const std::string schema, members_.text("schema", ""));
    if (schema != kSchema) return members_.refusal("schema", "expected " + std::string(kSchema) + found(schema));
    TRIMTAB_TRY(const std::string kind, members_.text("kind", ""));
    if (kind != "ddp" && kind != "fsdp" && kind != "fsdp2") {
      return members_.refusal("kind", "expected ddp, fsdp or fsdp2" + found(kind));
    }
    TRIMTAB_TRY_STATUS(read_layers());
    TRIMTAB_TRY_STATUS(read_batch());
    TRIMTAB_TRY_STATUS(kind == "ddp" ? read_ddp() : kind == "fsdp" ? read_fsdp() : read_fsdp2());
    if (const std::vector<std::string> unread = members_.unread(); !unread.empty()) {
      return members_.refusal(unread.front(), "trimtab.parallel knows no such member of " + kind);
    }
    return plan_of(replicas_, model_, kind, "trimtab.parallel");
  }

 private:
  static std::string found(const std::string& text) { return ", found " + quoted_text(text); }

  Status read_batch() {
    TRIMTAB_TRY(replicas_.samples, members_.needed_count("samples_per_microbatch"));
    TRIMTAB_TRY(replicas_.microbatches, members_.needed_count("accumulation_steps"));
    TRIMTAB_TRY(const std::int32_t batch, members_.needed_count("global_batch"));
    const std::int64_t together = std::int64_t{replicas_.ranks} * replicas_.samples;
    if (batch % together == 0 && batch / together == replicas_.microbatches) return {};
    return members_.refusal("global_batch", "must be samples_per_microbatch x accumulation_steps x world_size, found " +
                                                std::to_string(batch) + " and " + std::to_string(replicas_.samples) +
                                                " x " + std::to_string(replicas_.microbatches) + " x " +
                                                std::to_string(replicas_.ranks));
  }

  Status read_layers() {
    TRIMTAB_TRY(const ModelLayers parts, layers_of(model_));
    TRIMTAB_TRY(replicas_.ranks, ranks_of_own_file(members_, file_, parts));
    const auto layers = static_cast<std::int32_t>(parts.layers.size());
    TRIMTAB_TRY(const std::vector<std::int32_t> again, members_.layer_numbers(kCheckpointedLayers, layers));
    replicas_.recomputed_layers = {again.begin(), again.end()};
    return {};
  }

  Status read_ddp() {
    constexpr double kMost = 1 << 30;
    TRIMTAB_TRY(const bool shards, members_.flag("zero_redundancy_optimizer", false));
    if (shards && replicas_.ranks > 1) replicas_.sharded = ShardedLevel::kOptimizer;
    const Json* const mib = members_.find(kBucketMib);
    if (mib == nullptr) return {};
    const double value = mib->is_number() ? mib->get<double>() : 0;
    replicas_.bucket_bytes = value > 0 && value < kMost ? std::llround(value * (1 << 20)) : 0;
    if (replicas_.bucket_bytes > 0) return {};
    return members_.refusal(kBucketMib, "expected a number above 0" + found(dump(*mib)));
  }

  Status read_group() {
    TRIMTAB_TRY(replicas_.sharded_degree, members_.needed_count(kGroup));
    if (replicas_.ranks % replicas_.sharded_degree == 0) return {};
    return members_.refusal(kGroup, "must divide world_size " + std::to_string(replicas_.ranks) + ", found " +
                                        std::to_string(replicas_.sharded_degree));
  }

  Status read_fsdp() {
    struct Strategy {
      std::string_view name;
      ShardedLevel level;
    };
    constexpr std::array<Strategy, 5> kStrategies{{{"NO_SHARD", ShardedLevel::kNone},
                                                   {"SHARD_GRAD_OP", ShardedLevel::kGradients},
                                                   {"FULL_SHARD", ShardedLevel::kParameters},
                                                   {"_HYBRID_SHARD_ZERO2", ShardedLevel::kGradients},
                                                   {"HYBRID_SHARD", ShardedLevel::kParameters}}};
    TRIMTAB_TRY_STATUS(read_group());
    TRIMTAB_TRY(const std::string said, members_.text(kStrategy, ""));
    const auto known = std::ranges::find(kStrategies, std::string_view(said), &Strategy::name);
    if (known == kStrategies.end()) {
      return members_.refusal(kStrategy, "expected " + joined(kStrategies, ", ", &Strategy::name) + found(said));
    }
    // FSDP shards over the group with hybrid strategies alone, else over all.
    const bool hybrid = known->name.find("HYBRID") != std::string_view::npos;
    if (!hybrid && known->level != ShardedLevel::kNone) replicas_.sharded_degree = replicas_.ranks;
    replicas_.sharded = known->level;
    return {};
  }

  Status read_fsdp2() {
    TRIMTAB_TRY_STATUS(read_group());
    TRIMTAB_TRY(const bool reshard, members_.flag("reshard_after_forward", true));
    replicas_.sharded = reshard ? ShardedLevel::kParameters : ShardedLevel::kGradients;
    return {};
  }

  Replicas replicas_;
};

}  // namespace

Result<Plan> read_torch_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
