#include "schema/plan_import.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "documents/toml_tree.hpp"
#include "schema/models/parameters.hpp"
#include "targets/plan_readers.hpp"
#include "targets/yaml_block.hpp"
#include "targets/yaml_flow.hpp"

namespace trimtab {

namespace {

struct Format {
  std::string_view name;
  std::vector<std::string_view> marks;  // a file of it has one of these members
  Result<Json> (*tree)(const PlanFile& file);
  Result<Plan> (*read)(PlanMembers& members, const PlanFile& file, const Model& model);
};

Result<Json> json_tree(const PlanFile& file) {
  return parse_json_text(file.text, file.source);
}

const std::array<Format, 9>& table() {
  static const std::array<Format, 9> kTable{
      {{"galvatron", {"tp_sizes_enc"}, json_tree, read_galvatron_plan},
       // Before deepspeed, whose members it has, too.
       {"neox",
        {"pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size"},
        neox_tree,
        read_neox_plan},
       {"deepspeed",
        {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization"},
        json_tree,
        read_deepspeed_plan},
       {"parallel", {"samples_per_microbatch"}, json_tree, read_torch_plan},
       {"pipelining", {"n_microbatches"}, json_tree, read_pipelining_plan},
       {"torchtitan", {"parallelism", "activation_checkpoint"}, torchtitan_tree, read_torchtitan_plan},
       {"transformers", {"per_device_train_batch_size"}, transformers_tree, read_transformers_plan},
       {"accelerate", {"distributed_type", "compute_environment"}, accelerate_tree, read_accelerate_plan},
       {"lightning", {"trainer"}, lightning_tree, read_lightning_plan}}};
  return kTable;
}

bool has_marks(std::string_view name, const Json& object) {
  const auto format = std::ranges::find(table(), name, &Format::name);
  const auto has = [&](std::string_view mark) { return object.contains(std::string(mark)); };
  return format != table().end() && std::ranges::any_of(format->marks, has);
}

}  // namespace

Error ranks_needed(const std::string& why) {
  return bad_input("--ranks: needed, since " + why);
}

Result<std::int32_t> ranks_of_own_file(PlanMembers& members, const PlanFile& file, const ModelLayers& parts) {
  const auto differs = [&](const char* path, std::int32_t here, const char* whose, std::int64_t there) {
    return members.refusal(path, "is " + std::to_string(here) + ", but the " + whose + std::to_string(there));
  };
  TRIMTAB_TRY(const std::int32_t layers, members.needed_count("layers"));
  if (std::cmp_not_equal(layers, parts.layers.size())) {
    return differs("layers", layers, "model has ", std::ssize(parts.layers));
  }
  TRIMTAB_TRY(const std::int32_t ranks, members.needed_count("world_size"));
  if (file.ranks && *file.ranks != ranks) return differs("world_size", ranks, "ranks are ", *file.ranks);
  return ranks;
}

std::vector<std::string_view> plan_formats() {
  std::vector<std::string_view> names;
  for (const Format& format : table()) names.push_back(format.name);
  return names;
}

std::optional<std::string_view> plan_format_of(std::string_view text) {
  auto json = parse_json_text(text, "");
  if (!json.ok()) {
    // What is written as GPT-NeoX's and has DeepSpeed's members alone is one of several files of GPT-NeoX's.
    const auto flows = parse_yaml_flows(text, "");
    const bool object = flows.ok() && flows->front().is_object();
    if (object && (has_marks("neox", flows->front()) || has_marks("deepspeed", flows->front()))) return "neox";
    json = parse_toml_tree(text, "");
    if (!json.ok()) json = parse_yaml_blocks(text, "");
  }
  if (!json.ok() || !json->is_object()) return std::nullopt;
  for (const Format& format : table()) {
    if (has_marks(format.name, *json)) return format.name;
  }
  return std::nullopt;
}

Result<FoundPlan> plan_from_file(const PlanFile& file, const Model& model) {
  const auto format = std::ranges::find(table(), std::string_view(file.format), &Format::name);
  TRIMTAB_ASSERT(format != table().end(), "a known format");
  TRIMTAB_TRY_STATUS(check_priced(model));
  TRIMTAB_TRY(const Json json, format->tree(file));
  if (!json.is_object()) return bad_input(file.source + ": expected an object");
  PlanMembers members(json, file.source);
  TRIMTAB_TRY(Plan plan, format->read(members, file, model));
  return FoundPlan{std::move(plan), members.unread()};
}

}  // namespace trimtab
