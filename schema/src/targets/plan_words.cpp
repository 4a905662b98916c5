#include "schema/plan_words.hpp"

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

constexpr const char* kMember = "in_words";

void add(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : ", ") + part;
}

// "[1, 2, 3, 7]" as "1-3 and 7".
std::string numbers_text(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : " and ") + std::to_string(numbers[i]);
    if (end - i > 1) text += "-" + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

std::string checkpointing(const Json& file) {
  const auto layers = file.at("checkpoint_layers").get<std::vector<std::int64_t>>();
  const auto all = file.at("layers").get<std::size_t>();
  if (layers.empty()) return "checkpointing off";
  if (layers.size() == all) return "checkpointing of all " + std::to_string(all) + " layers";
  return "checkpointing of " + std::to_string(layers.size()) + " of " + std::to_string(all) + " layers (" +
         numbers_text(layers) + ")";
}

// What the file of trimtab.parallel says, in the words that scripts have for it.
std::string torch_words(const Json& file, const Plan& plan, std::string_view target) {
  std::string text =
      "batch_size=" + std::to_string(file.at("samples_per_microbatch").get<std::int64_t>()) +
      " per rank, gradient_accumulation_steps=" + std::to_string(file.at("accumulation_steps").get<std::int64_t>());
  add(text, checkpointing(file));
  if (file.value("zero_redundancy_optimizer", false)) add(text, "ZeroRedundancyOptimizer");
  if (const std::string strategy = file.value("sharding_strategy", ""); !strategy.empty()) {
    add(text, "sharding_strategy=" + strategy);
    const auto group = file.at("shard_group_size").get<std::int64_t>();
    if (strategy.find("HYBRID") != std::string::npos) add(text, "over groups of " + std::to_string(group) + " ranks");
  }
  if (file.contains("reshard_after_forward")) {
    const auto group = file.at("shard_group_size").get<std::int64_t>();
    const auto ranks = file.at("world_size").get<std::int64_t>();
    add(text, std::string("reshard_after_forward=") + (file.at("reshard_after_forward") == true ? "True" : "False"));
    if (group < ranks)
      add(text, "a mesh of " + std::to_string(ranks / group) + " replicas x " + std::to_string(group) + " shards");
  }
  // What PyTorch has by itself need not be said.
  const bool usual = plan.target_knobs == as_run(Plan{}, target).target_knobs;
  if (const double size = file.value("bucket_cap_mb", 0.0); size > 0 && !usual) {
    add(text, "bucket_cap_mb=" + dump(Json(size)));
  }
  return text;
}

// The same of trimtab.pipelining.
std::string pipelining_words(const Json& file) {
  std::string text = "schedule=" + file.at("schedule").get<std::string>();
  for (const char* const name : {"n_microbatches", "group_size"}) add(text, name + ("=" + dump(file.at(name))));
  const auto splits = file.at("split_layers").get<std::vector<std::int64_t>>();
  if (!splits.empty()) add(text, "split_layers=" + numbers_text(splits));
  add(text, checkpointing(file));
  return text;
}

// "zero_optimization.stage=1".
void add_keys(const OrderedJson& object, const std::string& path, std::string& text) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      add_keys(value, path + name + ".", text);
    } else {
      add(text, path + name + "=" + (value.is_string() ? value.get<std::string>() : dump(value)));
    }
  }
}

// accelerate's file, as its launcher tells ranks of it, and the script's arguments.
std::string environment_words(const ExportedPlan& exported) {
  std::string text = joined(exported.arguments, " ");
  for (const auto& [name, value] : exported.environment) add(text, name + "=" + value);
  return text;
}

std::string keys_text(const std::string& file_text) {
  std::string text;
  add_keys(OrderedJson::parse(file_text), "", text);
  return text;
}

}  // namespace

std::string plan_words(const Plan& plan, const Model& model, std::string_view target) {
  const bool torch = target == "ddp" || target == "fsdp" || target == "fsdp2";
  if (target.empty() || target == "trainer" || target == "galvatron") return "";
  const auto exported = export_plan(plan, model, target);
  if (!exported.ok()) return "";
  if (target.starts_with("accelerate")) return environment_words(*exported);
  if (target == "pipelining") return pipelining_words(Json::parse(exported->file_text));
  if (exported->file_text.empty()) return joined(exported->arguments, " ");
  return torch ? torch_words(Json::parse(exported->file_text), plan, target) : keys_text(exported->file_text);
}

std::string to_json(const Plan& plan, const std::string& words) {
  std::string text = to_json(plan);
  if (words.empty()) return text;
  OrderedJson json = OrderedJson::parse(text);
  json[kMember] = words;
  return dump(json);
}

std::string words_in(std::string_view plan_json) {
  const auto json = parse_json_text(plan_json, "plan");
  if (!json.ok() || !json->is_object()) return "";
  const auto found = json->find(kMember);
  return found != json->end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace trimtab
