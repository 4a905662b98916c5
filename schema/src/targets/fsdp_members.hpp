#pragma once

// FSDP as transformers and accelerate configure it, which hand it to the same code: the members of fsdp_config, without
// "fsdp_" in front. Pure.

#include <optional>

#include "targets/plan_members.hpp"
#include "targets/replicas.hpp"

namespace trimtab {

struct FsdpUse {
  ShardedLevel level = ShardedLevel::kNone;
  bool within_nodes = false;  // shards in each node, replicas over nodes
  bool recompute = false;
};

// `version` where the members say none, `strategy` of FSDP1 where another option says it. Fails on what a plan cannot
// say: parameters on the host, modules that are sharded by their size or not at all.
[[nodiscard]] Result<FsdpUse> read_fsdp(PlanMembers& members, std::int64_t version,
                                        const std::optional<std::string>& strategy);

}  // namespace trimtab
