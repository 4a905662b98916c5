#include "targets/fsdp_members.hpp"

#include <algorithm>
#include <array>

namespace trimtab {

namespace {

constexpr const char* kReshard = "fsdp_config.reshard_after_forward";

std::string lowered(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

std::string word_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump(value);
}

// "true", true, "True".
Result<std::optional<bool>> told(PlanMembers& members, const char* path) {
  const Json* const found = members.find(path);
  if (found == nullptr) return std::optional<bool>{};
  const std::string text = lowered(word_of(*found));
  if (text == "true" || text == "1") return std::optional(true);
  if (text == "false" || text == "0") return std::optional(false);
  return members.refusal(path, "expected true or false, found " + quoted_text(dump(*found)));
}

// FSDP1's strategies by their names, or by their numbers from 1.
Result<FsdpUse> of_strategy(PlanMembers& members, const char* path, const std::string& said) {
  struct Strategy {
    std::string_view name;
    ShardedLevel level;
    bool within_nodes;
  };
  constexpr std::array<Strategy, 5> kStrategies{{{"full_shard", ShardedLevel::kParameters, false},
                                                 {"shard_grad_op", ShardedLevel::kGradients, false},
                                                 {"no_shard", ShardedLevel::kNone, false},
                                                 {"hybrid_shard", ShardedLevel::kParameters, true},
                                                 {"hybrid_shard_zero2", ShardedLevel::kGradients, true}}};
  const std::string name = lowered(said);
  for (std::size_t i = 0; i < kStrategies.size(); ++i) {
    const Strategy& one = kStrategies[i];
    if (name == one.name || name == std::to_string(i + 1)) return FsdpUse{one.level, one.within_nodes};
  }
  return members.refusal(
      path,
      "expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or HYBRID_SHARD_ZERO2, found " + quoted_text(said));
}

Status check_sayable(PlanMembers& members) {
  for (const char* const path : {"fsdp_config.cpu_offload", "fsdp_config.offload_params"}) {
    TRIMTAB_TRY(const std::optional<bool> offloaded, told(members, path));
    if (offloaded.value_or(false)) return members.refusal(path, "a plan leaves parameters on the device");
  }
  TRIMTAB_TRY(const std::optional<bool> kept, told(members, "fsdp_config.activation_checkpointing_offload"));
  if (kept.value_or(false)) {
    return members.refusal("fsdp_config.activation_checkpointing_offload",
                           "a plan has no recomputed layer's input on the host");
  }
  constexpr const char* kPolicy = "fsdp_config.auto_wrap_policy";
  TRIMTAB_TRY(const std::string policy, members.text(kPolicy, "TRANSFORMER_BASED_WRAP"));
  TRIMTAB_TRY(const bool xla, members.flag("fsdp_config.xla", false));
  if (xla) return members.refusal("fsdp_config.xla", "a plan is for PyTorch's own FSDP");
  if (lowered(policy) == "transformer_based_wrap") return {};
  return members.refusal(kPolicy,
                         "a plan shards layer by layer (TRANSFORMER_BASED_WRAP), found " + quoted_text(policy));
}

Result<FsdpUse> level_of(PlanMembers& members, std::int64_t version, const std::optional<std::string>& strategy) {
  constexpr const char* kStrategy = "fsdp_config.sharding_strategy";
  const Json* const named = members.find(kStrategy);
  const Json* const reshard = members.find(kReshard);
  if (version == 2) {
    if (reshard == nullptr && strategy) return of_strategy(members, "fsdp", *strategy);
    TRIMTAB_TRY(const std::optional<bool> gathered_anew, told(members, kReshard));
    return FsdpUse{gathered_anew.value_or(true) ? ShardedLevel::kParameters : ShardedLevel::kGradients};
  }
  if (named == nullptr && reshard == nullptr) return of_strategy(members, "fsdp", strategy.value_or("full_shard"));
  return of_strategy(members, named != nullptr ? kStrategy : kReshard, word_of(named != nullptr ? *named : *reshard));
}

}  // namespace

Result<FsdpUse> read_fsdp(PlanMembers& members, std::int64_t version, const std::optional<std::string>& strategy) {
  constexpr const char* kVersion = "fsdp_config.version";
  const Json* const found = members.find(kVersion);
  if (found != nullptr) {
    const std::string text = word_of(*found);
    if (text != "1" && text != "2") return members.refusal(kVersion, "expected 1 or 2, found " + quoted_text(text));
    version = text == "1" ? 1 : 2;
  }
  TRIMTAB_TRY_STATUS(check_sayable(members));
  TRIMTAB_TRY(FsdpUse use, level_of(members, version, strategy));
  TRIMTAB_TRY(const std::optional<bool> recompute, told(members, "fsdp_config.activation_checkpointing"));
  use.recompute = recompute.value_or(false);
  return use;
}

}  // namespace trimtab
