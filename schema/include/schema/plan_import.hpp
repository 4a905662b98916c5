#pragma once

// The plan that a framework's own arguments or configuration file say: what export_plan(…) writes for it, read back,
// and what else its users write for the same. Pure; any thread.
//
// megatron    arguments, with meanings and defaults of megatron/training/arguments.py and of validate_args there
// (August
//             2026). Options that say nothing of a plan are passed over.
// deepspeed   the JSON of --deepspeed_config (0.19), with transformers' "auto" values where options say them
// galvatron   the strategy file of galvatron_config_path (1.0 to 2.4)
// neox        GPT-NeoX's YAML (2.0), in the flow style that its own have
// torchtitan  the TOML of --job.config_file (0.2), the JSON of save_config_file (0.2, 0.3), with a command's overrides;
//             of an empty text the overrides alone, which then must say all of a plan
// transformers  TrainingArguments (4.40 to 5.24) of a command, with the JSON that its --deepspeed or --fsdp_config
// names;
//             or the JSON of all of them
// accelerate  the YAML or JSON of `accelerate launch --config_file` (1.0 to 1.15) with the launcher's options, and the
//             script's own that say its batch

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab {

// Options that a plan decides, without their dashes. A command that is given plans must not have them itself.
[[nodiscard]] std::span<const std::string_view> megatron_plan_options();
// The same of transformers' TrainingArguments, of a script under accelerate and of LightningCLI, with dashes for
// underscores. What begins with one of them and a dot is meant, too.
[[nodiscard]] std::span<const std::string_view> transformers_plan_options();
[[nodiscard]] std::span<const std::string_view> accelerate_plan_options();
[[nodiscard]] std::span<const std::string_view> lightning_plan_options();

// The plan of `world_size` ranks. `model` is that of the same arguments (megatron_model.hpp). Fails, naming the option,
// on what is malformed, what Megatron-LM itself would refuse, and what a plan cannot say (a part of a layer that is
// recomputed, a batch that grows). REQUIRES: world_size > 0.
[[nodiscard]] Result<Plan> plan_from_megatron(const std::vector<std::string>& arguments, const Model& model,
                                              std::int32_t world_size);

struct PlanFile {
  std::string text;
  std::string source;                // for messages
  std::string format;                // of plan_formats()
  std::vector<std::string> options;  // of the command that reads the file, or said beside it
  std::optional<std::int32_t> ranks = {};
  std::vector<std::string> launch_options = {};  // of a launcher that says a part of the plan: accelerate's
};

struct FoundPlan {
  Plan plan;
  std::vector<std::string> passed_over = {};  // members of the file that say nothing of a plan
};

[[nodiscard]] std::vector<std::string_view> plan_formats();
// By the members that it has; nothing where it is none of them.
[[nodiscard]] std::optional<std::string_view> plan_format_of(std::string_view text);

// Fails, naming the member or the option, on what is malformed, what the framework itself would refuse, what a plan
// cannot say, and where the ranks are neither given nor said by the file. REQUIRES: a known format; ranks > 0.
[[nodiscard]] Result<FoundPlan> plan_from_file(const PlanFile& file, const Model& model);

}  // namespace trimtab
