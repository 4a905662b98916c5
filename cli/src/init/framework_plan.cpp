#include "init/framework_plan.hpp"

#include <algorithm>
#include <array>

#include "base/numbers.hpp"
#include "init/option_words.hpp"
#include "schema/hf_model.hpp"
#include "schema/launch_script.hpp"

namespace trimtab::cli {

namespace {

struct Framework {
  std::string_view format;
  std::vector<std::string_view> marks;  // one of these stands in the text of a script that takes its words
  std::span<const std::string_view> (*options)();
};

const std::array<Framework, 3> kFrameworks{
    {{"transformers", {"TrainingArguments", "SFTConfig", "DPOConfig", "TrlParser"}, transformers_plan_options},
     {"accelerate", {"per_device_train_batch_size"}, accelerate_plan_options},
     {"lightning", {"LightningCLI"}, lightning_plan_options}}};

// Tokens of a sample, by the names that scripts of a Trainer's have.
const Names kSequence{"--max-seq-length", "--max-seq-len", "--max-length",       "--block-size",
                      "--cutoff-len",     "--seq-length",  "--model-max-length", "--sequence-length"};

struct Described {
  Model model;
  std::vector<std::string> words;
};

Result<Described> of_config(const std::vector<std::string>& options, const CommandFacts& facts,
                            std::int32_t global_batch, const std::string& name) {
  const std::string given = value_of(options, kSequence).value_or("");
  const auto sequence = parse_number<std::int32_t>(given);
  if (!sequence || *sequence < 1) {
    return bad_input("the command does not say how many tokens a sample has (" + std::string(kSequence.front()) +
                     "), which " + facts.config_path + " leaves open; --model FILE takes a model.json");
  }
  Described described;
  TRIMTAB_TRY(described.model, model_from_hf(facts.config_text, facts.config_path, {*sequence, global_batch}, name));
  described.words = {"trimtab",
                     "model",
                     "extract",
                     "--hf",
                     facts.config_path,
                     "--sequence",
                     std::to_string(*sequence),
                     "--global-batch",
                     std::to_string(global_batch),
                     "--name",
                     name};
  return described;
}

Result<Described> described(const std::vector<std::string>& options, const CommandFacts& facts,
                            std::int32_t global_batch, const std::string& name) {
  if (!facts.model_text.empty()) {
    TRIMTAB_TRY(Model model, parse_model(facts.model_text, facts.model_path));
    return Described{std::move(model), {"cat", facts.model_path}};
  }
  if (!facts.config_text.empty()) return of_config(options, facts, global_batch, name);
  return bad_input(
      "the model is not known: neither a folder with config.json stands behind --model_name_or_path or --config_name, "
      "nor is --model FILE given, a model.json as 'trimtab model extract' writes it");
}

}  // namespace

std::optional<std::string> framework_target(const CommandFacts& facts) {
  const std::optional<PlanFile>& file = facts.plan_file;
  const auto known =
      file ? std::ranges::find(kFrameworks, std::string_view(file->format), &Framework::format) : kFrameworks.end();
  if (known == kFrameworks.end()) return std::nullopt;
  const auto has = [&](std::string_view name) { return facts.script_text.find(name) != std::string::npos; };
  if (!std::ranges::any_of(known->marks, has)) return std::nullopt;
  const auto strategy = option_value(file->options, "trainer.strategy").value_or("");
  const bool deepspeed = option_value(file->options, "deepspeed").has_value() ||
                         facts.launcher_environment.contains("ACCELERATE_USE_DEEPSPEED") ||
                         strategy.find("deepspeed") != std::string::npos ||
                         strategy.find("DeepSpeed") != std::string::npos;
  return file->format + (deepspeed ? "-deepspeed" : "");
}

std::span<const std::string_view> framework_plan_options(std::string_view target) {
  const std::string_view format = target.substr(0, target.find('-'));
  const auto known = std::ranges::find(kFrameworks, format, &Framework::format);
  return known == kFrameworks.end() ? std::span<const std::string_view>() : known->options();
}

Result<FrameworkPlan> framework_plan(const std::vector<std::string>& options, const CommandFacts& facts,
                                     std::int32_t ranks, const std::string& name) {
  // The batch of a step is the plan's, and the plan needs no more of the model than its layers.
  TRIMTAB_TRY(const Described layers, described(options, facts, 1, name));
  PlanFile file = *facts.plan_file;
  file.ranks = ranks;
  TRIMTAB_TRY(FoundPlan found, plan_from_file(file, layers.model));
  TRIMTAB_TRY(Described whole, described(options, facts, found.plan.global_batch, name));
  if (whole.model.global_batch != found.plan.global_batch) {
    return bad_input(facts.model_path + ": global_batch: is " + std::to_string(whole.model.global_batch) +
                     ", but the command trains " + std::to_string(found.plan.global_batch) + " samples a step");
  }
  found.plan.model = whole.model.name;
  return FrameworkPlan{std::move(found.plan), std::move(whole.model), std::move(whole.words),
                       std::move(found.passed_over)};
}

}  // namespace trimtab::cli
