#pragma once

// What plan_file.cpp's table holds for each format. Pure.

#include "schema/plan_import.hpp"
#include "schema/target.hpp"
#include "targets/plan_members.hpp"

namespace trimtab {

// What the reader of a format reads, and for which model. All of it outlives the reader.
class PlanReader {
 public:
  PlanReader(PlanMembers& members, const PlanFile& file, const Model& model)
      : members_(members), file_(file), model_(model) {}

 protected:
  PlanMembers& members_;
  const PlanFile& file_;
  const Model& model_;
};

// "--ranks: needed ..."
[[nodiscard]] Error ranks_needed(const std::string& why);

inline constexpr const char* kCheckpointedLayers = "checkpoint_layers";  // of files that our client reads
// world_size of such a file, and its layers, against what is known of both.
[[nodiscard]] Result<std::int32_t> ranks_of_own_file(PlanMembers& members, const PlanFile& file,
                                                     const ModelLayers& parts);

[[nodiscard]] Result<Plan> read_deepspeed_plan(PlanMembers& members, const PlanFile& file, const Model& model);
[[nodiscard]] Result<Plan> read_galvatron_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// What trimtab.parallel reads: ddp.json, fsdp.json, fsdp2.json.
[[nodiscard]] Result<Plan> read_torch_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// What trimtab.pipelining reads: pipelining.json.
[[nodiscard]] Result<Plan> read_pipelining_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// Its TOML or JSON, with the overrides of the options put in.
[[nodiscard]] Result<Json> torchtitan_tree(const PlanFile& file);
[[nodiscard]] Result<Plan> read_torchtitan_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// A command's TrainingArguments, with a file that one of them names, or a file of all.
[[nodiscard]] Result<Json> transformers_tree(const PlanFile& file);
[[nodiscard]] Result<Plan> read_transformers_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// accelerate/accelerate_tree.hpp
[[nodiscard]] Result<Json> accelerate_tree(const PlanFile& file);
[[nodiscard]] Result<Plan> read_accelerate_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// Lightning's words, and the YAML that LightningCLI reads.
[[nodiscard]] Result<Json> lightning_tree(const PlanFile& file);
[[nodiscard]] Result<Plan> read_lightning_plan(PlanMembers& members, const PlanFile& file, const Model& model);

// Its YAML, with names that have underscores alone.
[[nodiscard]] Result<Json> neox_tree(const PlanFile& file);
[[nodiscard]] Result<Plan> read_neox_plan(PlanMembers& members, const PlanFile& file, const Model& model);

}  // namespace trimtab
