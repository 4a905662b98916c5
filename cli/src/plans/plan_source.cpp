#include "plans/plan_source.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "files.hpp"
#include "init/command_reading.hpp"
#include "schema/launch_script.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

constexpr const char* kMegatron = "megatron";
constexpr const char* kNeox = "neox";
constexpr const char* kTorchtitan = "torchtitan";
constexpr const char* kTransformers = "transformers";
constexpr const char* kAccelerate = "accelerate";
constexpr const char* kLightning = "lightning";
constexpr std::string_view kPolicy = "activation-checkpoint:";  // torchtitan's, an option without dashes

// How commands name a configuration, and whose that is.
struct FileOption {
  std::string_view name;
  std::string_view format;
};
constexpr std::array<FileOption, 4> kFileOptions{{{"job.config_file", kTorchtitan},
                                                  {"deepspeed_config", "deepspeed"},
                                                  {"deepspeed_config_file", "deepspeed"},
                                                  {"deepspeed", "deepspeed"}}};

// All words of a command, and those that its script is given.
struct Said {
  std::vector<std::string> words;
  std::vector<std::string> options;
  std::vector<std::string> launch_options;
  std::optional<std::int32_t> ranks;
  std::string script;
  bool by_accelerate = false;

  void add(const std::vector<std::string>& command) {
    words.insert(words.end(), command.begin(), command.end());
    const bool alone = command.empty() || command.front().starts_with("-") || command.front().starts_with(kPolicy);
    if (alone) {
      options.insert(options.end(), command.begin(), command.end());
      return;
    }
    const CommandReading reading = read_command(command);
    options.insert(options.end(), reading.script_options.begin(), reading.script_options.end());
    if (!reading.launchers.empty()) ranks = reading.world_size();
    launch_options = reading.launch_options;
    by_accelerate = reading.launched_by(kAccelerate);
    script = reading.script;
  }
};

struct NamedFile {
  std::string path;
  std::string format;
};

// torchtitan's configuration in Python, and overrides of it.
bool has_overrides(const Said& said) {
  return std::ranges::any_of(said.options, [](const std::string& word) {
    return word.starts_with("--parallelism.") || word.starts_with("--training.");
  });
}

// transformers' TrainingArguments, which its examples' names stand for.
bool has_trainer_arguments(const Said& said) {
  return option_value(said.options, "per_device_train_batch_size").has_value() ||
         option_value(said.options, "fsdp_config").has_value();
}

// What TrainingArguments name; JSON in the command itself is no file.
std::string file_of_trainer(const Said& said) {
  for (const char* const name : {"deepspeed", "fsdp_config"}) {
    const std::string path = option_value(said.options, name).value_or("");
    if (!path.empty() && !path.starts_with("{")) return path;
  }
  return "";
}

// Of a command that may name a file, and says the rest itself.
Result<PlanSource> with_file(const std::string& path, const char* format, Said said,
                             std::vector<std::string> launch_options = {}) {
  std::string text;
  if (!path.empty()) {
    TRIMTAB_TRY(text, read_file(path));
  }
  return PlanSource(PlanFile{std::move(text), path.empty() ? "the command" : path, format, std::move(said.options),
                             said.ranks, std::move(launch_options)});
}

Result<PlanSource> of_trainer(Said said) {
  const std::string path = file_of_trainer(said);
  return with_file(path, kTransformers, std::move(said));
}

// Where accelerate looks when nobody names a file.
std::string usual_accelerate_file() {
  const auto variable = [](const char* name) -> std::filesystem::path {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") / ".cache";
  std::filesystem::path home = variable("HF_HOME");
  if (home.empty()) home = cache / "huggingface";
  const std::filesystem::path file = home / "accelerate" / "default_config.yaml";
  return is_there(file.string()) ? file.string() : "";
}

std::string accelerate_file(const Said& said) {
  if (!said.by_accelerate) return "";
  const auto named = option_value(said.launch_options, "config_file");
  const bool cpu = option_value(said.launch_options, "cpu").has_value();
  return named ? *named : cpu ? "" : usual_accelerate_file();
}

// Whether its launcher is told more of a plan than ranks.
bool accelerate_says(const Said& said) {
  if (!said.by_accelerate) return false;
  const auto says = [](const std::string& word) {
    constexpr std::string_view kBegins[] = {"--use_", "--use-", "--fsdp", "--zero", "--parallelism", "--offload"};
    return std::ranges::any_of(kBegins, [&](std::string_view begin) { return word.starts_with(begin); });
  };
  return std::ranges::any_of(said.launch_options, says) || !accelerate_file(said).empty();
}

Result<PlanSource> of_accelerate(Said said) {
  const std::string path = accelerate_file(said);
  std::vector<std::string> launch_options = std::move(said.launch_options);
  return with_file(path, kAccelerate, std::move(said), std::move(launch_options));
}

// Words of LightningCLI, which come over the YAML of --config.
bool has_lightning_words(const Said& said) {
  return std::ranges::any_of(said.options, [](const std::string& word) { return word.starts_with("--trainer."); });
}

Result<PlanSource> of_lightning(Said said) {
  const std::string path = option_value(said.options, "config").value_or("");
  return with_file(path, kLightning, std::move(said));
}

std::optional<NamedFile> named_file(const Said& said, const std::string& from) {
  for (const FileOption& option : kFileOptions) {
    const auto path = option_value(said.words, option.name);
    const bool wanted = from.empty() || from == option.format;
    if (path && !path->empty() && wanted) return NamedFile{*path, std::string(option.format)};
  }
  return std::nullopt;
}

// Of deepy.py, GPT-NeoX's launcher: train.py -d FOLDER NAME..., where a name may go without its .yml.
std::vector<std::string> neox_files(const Said& said) {
  std::vector<std::string> files;
  if (std::filesystem::path(said.script).filename() != "deepy.py") return files;
  std::filesystem::path folder;
  for (std::size_t i = 1; i < said.options.size(); ++i) {
    const std::string& word = said.options[i];
    const bool flag = word == "-d" || word == "--conf_dir";
    if (flag && i + 1 < said.options.size()) folder = said.options[++i];
    if (word.starts_with("-")) continue;
    const bool whole = word.ends_with(".yml") || word.ends_with(".yaml") || word.ends_with(".json");
    files.push_back(whole ? word : word + ".yml");
  }
  for (std::string& file : files) file = (folder / file).string();
  return files;
}

Result<PlanSource> of_neox(const std::vector<std::string>& files, Said said) {
  std::string all;
  for (const std::string& file : files) {
    TRIMTAB_TRY(const std::string text, read_file(file));
    all += text + "\n";
  }
  return PlanSource(PlanFile{std::move(all), joined(files), kNeox, std::move(said.options), said.ranks});
}

Result<PlanSource> of_command(Said said, const std::string& from) {
  const std::vector<std::string> files = neox_files(said);
  if (!files.empty() && (from.empty() || from == kNeox)) return of_neox(files, std::move(said));
  const bool trainer = has_trainer_arguments(said);
  const auto named = from == kMegatron ? std::nullopt : named_file(said, from);
  if (from == kAccelerate || (!named && from.empty() && accelerate_says(said))) return of_accelerate(std::move(said));
  if (from == kLightning || (!named && from.empty() && has_lightning_words(said))) return of_lightning(std::move(said));
  if (from == kTransformers || (!named && from.empty() && trainer)) return of_trainer(std::move(said));
  if (!named && (from == kTorchtitan || (from.empty() && has_overrides(said)))) {
    return PlanSource(PlanFile{"", "the command", kTorchtitan, std::move(said.options), said.ranks});
  }
  const bool megatron = option_value(said.options, "micro-batch-size").has_value() ||
                        option_value(said.options, "tensor-model-parallel-size").has_value();
  if (!named && from.empty() && said.by_accelerate && !megatron) return of_accelerate(std::move(said));
  if (!named) {
    if (said.options.empty() || (!from.empty() && from != kMegatron)) {
      return bad_input("plan import: needs " + (from.empty() ? "a framework's" : from + "'s") +
                       " configuration as FILE or in a command behind --, or Megatron-LM's arguments there");
    }
    return PlanSource(MegatronWords{std::move(said.options), said.ranks});
  }
  if (megatron && from.empty()) {
    return bad_input("plan import: the command has Megatron-LM's arguments and DeepSpeed's configuration " +
                     named->path + ", and together they are read no plan of; --from megatron or --from " +
                     named->format + " reads one of them alone");
  }
  if (from.empty() && trainer) return of_trainer(std::move(said));
  TRIMTAB_TRY(std::string text, read_file(named->path));
  return PlanSource(PlanFile{std::move(text), named->path, named->format, std::move(said.options), said.ranks});
}

// A launch script, or a list of arguments.
Result<PlanSource> of_script(const std::string& text, const std::string& file, Said said, const std::string& from) {
  const SourcedText beside = files_beside(file);
  auto found = launch_words(text, file, "--micro-batch-size", beside);
  if (!found.ok() && from != kMegatron) {
    auto trainer = launch_words(text, file, "--per_device_train_batch_size", beside);
    if (trainer.ok()) found = std::move(trainer);
  }
  for (const FileOption& option : kFileOptions) {
    if (found.ok() || from == kMegatron) break;
    auto other = launch_words(text, file, "--" + std::string(option.name), beside);
    if (other.ok()) found = std::move(other);
  }
  if (!found.ok()) {
    return bad_input(found.error().message + ". A configuration is known by its members; read are those of " +
                     joined(plan_formats()) + " (--from NAME)");
  }
  Said all;
  all.add(found->words);
  all.add(said.words);
  return of_command(std::move(all), from);
}

}  // namespace

std::vector<std::string_view> plan_sources() {
  std::vector<std::string_view> names = plan_formats();
  names.insert(names.begin(), kMegatron);
  return names;
}

Result<PlanSource> read_plan_source(const std::string& file, const std::vector<std::string>& command,
                                    const std::string& from) {
  Said said;
  said.add(command);
  if (file.empty()) return of_command(std::move(said), from);
  TRIMTAB_TRY(std::string text, read_file(file));
  const std::string format = from.empty() ? std::string(plan_format_of(text).value_or("")) : from;
  if (format.empty() || format == kMegatron || text.starts_with("#!"))
    return of_script(text, file, std::move(said), from);
  return PlanSource(
      PlanFile{std::move(text), file, format, std::move(said.options), said.ranks, std::move(said.launch_options)});
}

}  // namespace trimtab::cli
