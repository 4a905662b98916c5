#include "init/parallel_script.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "json_text.hpp"
#include "schema/plan_import.hpp"
#include "schema/target.hpp"

namespace trimtab::cli {

namespace {

constexpr std::string_view kCall = "parallel.load(";

// Behind the call's parenthesis, up to the one that closes it.
std::optional<std::string_view> arguments_of_call(std::string_view text) {
  std::size_t at = 0;
  while ((at = text.find(kCall, at)) != std::string_view::npos) {
    const std::size_t line = text.rfind('\n', at) + 1;  // 0 where there is none before
    at += kCall.size();
    if (text.substr(line, at - line).find('#') != std::string_view::npos) continue;
    std::int32_t depth = 1;
    for (std::size_t end = at; end < text.size(); ++end) {
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
      if (depth == 0) return text.substr(at, end - at);
    }
  }
  return std::nullopt;
}

// Of name=value; nothing where there is no such argument.
std::optional<std::string_view> argument(std::string_view all, std::string_view name) {
  for (const std::string_view one : parted(all)) {
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos || trimmed(one.substr(0, equals)) != name) continue;
    return trimmed(one.substr(equals + 1));
  }
  return std::nullopt;
}

// "16", or "given.batch_size" where the command has --batch-size.
std::optional<std::int32_t> number_of(std::string_view value, const Words& options) {
  auto number = parse_number<std::int32_t>(value);
  if (!number) {
    std::string name(value.substr(value.rfind('.') + 1));
    std::ranges::replace(name, '_', '-');
    number = parse_number<std::int32_t>(value_of(options, {"--" + name}).value_or(""));
  }
  return number && *number > 0 ? number : std::nullopt;
}

}  // namespace

std::optional<std::int32_t> ParallelScript::global_batch(std::int32_t ranks) const {
  constexpr std::int64_t kMost = 1 << 30;
  if (!samples) return std::nullopt;
  const std::int64_t all = std::int64_t{*samples} * microbatches;
  if (all > kMost / ranks) return std::nullopt;
  return static_cast<std::int32_t>(all * ranks);
}

std::optional<ParallelScript> parallel_script(std::string_view text, const Words& options) {
  const auto arguments = arguments_of_call(text);
  if (!arguments) return std::nullopt;
  ParallelScript script;
  script.load = "load(" + std::string(trimmed(*arguments)) + ")";
  if (const auto kind = argument(*arguments, "kind"); kind && kind->size() > 2) {
    script.kind = kind->substr(1, kind->size() - 2);  // without its quotes
  }
  if (const auto samples = argument(*arguments, "batch_size")) script.samples = number_of(*samples, options);
  const auto steps = argument(*arguments, "gradient_accumulation_steps");
  const auto microbatches = steps ? number_of(*steps, options) : 1;
  script.microbatches = microbatches.value_or(1);
  if (!microbatches) script.samples.reset();
  return script;
}

Result<Plan> own_plan(const ParallelScript& script, const Model& model, std::int32_t ranks) {
  const auto batch = script.global_batch(ranks);
  TRIMTAB_ASSERT(batch.has_value(), "a script whose samples are known");
  TRIMTAB_TRY(const ModelLayers parts, layers_of(model));
  nlohmann::json file{{"schema", "trimtab.parallel/1"},
                      {"kind", script.kind},
                      {"world_size", ranks},
                      {"global_batch", *batch},
                      {"samples_per_microbatch", *script.samples},
                      {"accumulation_steps", script.microbatches},
                      {"layers", parts.layers.size()}};
  if (script.kind != "ddp") file["shard_group_size"] = ranks;
  if (script.kind == "fsdp") file["sharding_strategy"] = "FULL_SHARD";
  TRIMTAB_TRY(FoundPlan found, plan_from_file({json_text(file), script.load, "parallel", {}, ranks}, model));
  return std::move(found.plan);
}

}  // namespace trimtab::cli
