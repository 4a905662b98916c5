// As accelerate/utils/launch.py sets it (1.15).

#include "schema/accelerate_environment.hpp"

#include <algorithm>

#include "targets/accelerate/accelerate_tree.hpp"
#include "targets/plan_members.hpp"

namespace trimtab {

namespace {

// Places of processes, and what Trimtab or the tree's engine says.
constexpr std::string_view kNeutral = R"(
compute_environment distributed_type engine script main_training_function machine_rank num_machines num_processes
main_process_ip main_process_port rdzv_backend same_network gpu_ids config_file use_fsdp use_deepspeed multi_gpu cpu
use_cpu use_parallelism_config num_cpu_threads_per_process mixed_precision fsdp_config deepspeed_config
parallelism_config debug
)";

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump(value);
}

std::string raised(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return name;
}

bool says_nothing(const Json& value) {
  if (value.is_null() || value == false || value.empty()) return true;
  return value.is_string() && raised(value.get<std::string>()) == "NO";
}

const Json& part_of(const Json& tree, const char* name) {
  static const Json kNone = Json::object();
  const auto found = tree.find(name);
  return found == tree.end() || !found->is_object() ? kNone : *found;
}

void add_fsdp(const Json& members, std::map<std::string, std::string>& variables) {
  variables["ACCELERATE_USE_FSDP"] = "true";
  for (const auto& [name, value] : members.items()) {
    if (value.is_null()) continue;
    const bool layers = name == "transformer_layer_cls_to_wrap";
    variables["FSDP_" + (layers ? "TRANSFORMER_CLS_TO_WRAP" : raised(name))] = text_of(value);
  }
}

void add_deepspeed(const Json& members, std::map<std::string, std::string>& variables) {
  variables["ACCELERATE_USE_DEEPSPEED"] = "true";
  for (const auto& [name, value] : members.items()) {
    if (value.is_null()) continue;
    const bool whole = name == "gradient_accumulation_steps" || name == "gradient_clipping";
    const std::string own = name == "deepspeed_config_file" ? "CONFIG_FILE"
                            : name == "zero3_init_flag"     ? "ZERO3_INIT"
                                                            : raised(name);
    variables[(whole ? "ACCELERATE_" : "ACCELERATE_DEEPSPEED_") + own] = text_of(value);
  }
}

}  // namespace

Result<AccelerateEnvironment> accelerate_environment(const PlanFile& file) {
  TRIMTAB_TRY(const Json tree, accelerate_tree(file));
  AccelerateEnvironment made;
  const auto top = [&](const char* name) { return tree.contains(name) ? tree[name] : Json(nullptr); };
  const Json precision = top("mixed_precision");
  made.variables["ACCELERATE_MIXED_PRECISION"] = precision.is_string() ? precision.get<std::string>() : "no";
  const Json processes = top("num_processes");
  const std::int64_t count = processes.is_number_integer() ? processes.get<std::int64_t>() : 0;
  if (count > 0 && count <= 1 << 20) made.processes = static_cast<std::int32_t>(count);
  const Json threads = top("num_cpu_threads_per_process");
  if (threads.is_number()) made.variables["OMP_NUM_THREADS"] = dump(threads);
  if (top("cpu") == true || top("use_cpu") == true) made.variables["ACCELERATE_USE_CPU"] = "true";
  if (top("engine") == "FSDP") add_fsdp(part_of(tree, "fsdp_config"), made.variables);
  if (top("engine") == "DEEPSPEED") add_deepspeed(part_of(tree, "deepspeed_config"), made.variables);
  const Json& mesh = part_of(tree, "parallelism_config");
  if (!mesh.empty()) made.variables["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true";
  for (const auto& [name, value] : mesh.items()) {
    made.variables["PARALLELISM_CONFIG_" + raised(name)] = text_of(value);
  }
  for (const auto& [name, value] : tree.items()) {
    if (!is_listed(kNeutral, name) && !says_nothing(value)) made.unread.push_back(name);
  }
  return made;
}

}  // namespace trimtab
