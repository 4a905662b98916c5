#include "targets/accelerate/accelerate_tree.hpp"

#include <algorithm>
#include <array>

#include "schema/accelerate_environment.hpp"
#include "targets/option_tree.hpp"
#include "targets/plan_members.hpp"
#include "targets/plan_readers.hpp"
#include "targets/yaml_block.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kLaunch = R"(
config_file num_processes num_machines mixed_precision use_fsdp use_deepspeed multi_gpu cpu tpu use_megatron_lm
use_parallelism_config num_cpu_threads_per_process dynamo_backend
)";
constexpr std::string_view kFsdp = R"(
fsdp_version fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward
fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type
fsdp_forward_prefetch fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states
fsdp_activation_checkpointing fsdp_activation_checkpointing_offload
)";
constexpr std::string_view kDeepspeed = R"(
deepspeed_config_file zero_stage offload_optimizer_device offload_param_device gradient_clipping zero3_init_flag
zero3_save_16bit_model gradient_accumulation_steps
)";
constexpr std::string_view kParallelism = R"(
parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size
parallelism_config_cp_size parallelism_config_sp_size
)";
constexpr std::string_view kScript = R"(
per_device_train_batch_size train_batch_size batch_size gradient_accumulation_steps gradient_checkpointing
)";

// These open no value, whatever stands behind them.
constexpr std::array<std::string_view, 4> kParts{"fsdp_config", "deepspeed_config", "parallelism_config", "script"};

std::string engine_of(const Json& tree) {
  const auto on = [&](const char* name) { return tree.contains(name) && tree[name] == true; };
  if (on("use_deepspeed")) return "DEEPSPEED";
  if (on("use_fsdp")) return "FSDP";
  if (on("use_megatron_lm")) return "MEGATRON_LM";
  if (on("tpu")) return "XLA";
  if (on("multi_gpu") || on("cpu")) return "MULTI_GPU";
  const auto found = tree.find("distributed_type");
  if (found == tree.end()) return "";
  // YAML's NO is false.
  return found->is_string() ? found->get<std::string>() : *found == false ? "NO" : dump(*found);
}

}  // namespace

bool is_accelerate_option(std::string_view name) {
  std::string own(name);
  std::ranges::replace(own, '-', '_');
  const auto lists = {kLaunch, kFsdp, kDeepspeed, kParallelism};
  return std::ranges::any_of(lists, [&](std::string_view list) { return is_listed(list, own); });
}

Result<Json> accelerate_tree(const PlanFile& file) {
  TRIMTAB_TRY(Json tree, parse_json_or_yaml(file.text, file.source));
  for (const std::string_view part : kParts) {
    Json& members = tree[std::string(part)];
    if (!members.is_object()) members = Json::object();
  }
  add_options(file.launch_options, kLaunch, tree);
  add_options(file.launch_options, kFsdp, tree["fsdp_config"]);
  add_options(file.launch_options, kDeepspeed, tree["deepspeed_config"]);
  add_options(file.launch_options, kParallelism, tree["parallelism_config"]);
  add_options(file.options, kScript, tree["script"]);
  strip_prefix(tree, "fsdp_config", "fsdp_");
  strip_prefix(tree, "parallelism_config", "parallelism_config_");
  for (const std::string_view part : kParts) {
    if (tree[std::string(part)].empty()) tree.erase(std::string(part));
  }
  tree["engine"] = engine_of(tree);
  return tree;
}

}  // namespace trimtab
