#include "init/job_draft.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "base/url.hpp"
#include "init/framework_plan.hpp"
#include "init/option_words.hpp"
#include "init/parallel_script.hpp"
#include "init/usual_knobs.hpp"
#include "schema/accelerate_environment.hpp"
#include "schema/job.hpp"
#include "schema/megatron_model.hpp"
#include "schema/plan_import.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// As TOML's basic strings have it.
std::string toml_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    const bool control = (c >= 0 && c < 0x20) || c == 0x7f;
    out += control
               ? std::string("\\u00") + kHex[static_cast<std::size_t>(c) / 16] + kHex[static_cast<std::size_t>(c) % 16]
               : std::string(1, c);
  }
  return out + "\"";
}

std::string array_of(const Words& words) {
  return "[" + joined(words, ", ", [](const std::string& word) { return toml_text(word); }) + "]";
}

const Names kStepOptions{"--steps",     "--max-steps", "--train-iters",
                         "--max-iters", "--num-steps", "--trainer.max-steps"};
const Names kCheckpointOptions{"--checkpoint",
                               "--save",
                               "--checkpoint-dir",
                               "--output-dir",
                               "--out-dir",
                               "--default-root-dir",
                               "--trainer.default-root-dir"};

struct Recognised {
  std::string target;
  std::string why;
  bool integrated = false;  // the script reads plans already
  bool tells = integrated;  // it tells its steps, too
  bool live = false;        // and takes another one as it trains: it uses trimtab.parallel
};

Recognised recognise(const CommandReading& reading, const CommandFacts& facts) {
  const Words& options = reading.script_options;
  const std::string& text = facts.script_text;
  if (value_of(options, {"--tensor-model-parallel-size", "--pipeline-model-parallel-size"}) ||
      (value_of(options, {"--micro-batch-size"}) && value_of(options, {"--num-layers"})) ||
      has(text, "from megatron")) {
    return {"megatron", "Megatron-LM's arguments, or its modules in the script", true};
  }
  if (auto target = framework_target(facts)) {
    return {*target, "what the command tells " + facts.plan_file->format + ", and the script's text", true, false};
  }
  if (reading.launched_by("deepspeed") || has_option(options, "--deepspeed-config") ||
      has_option(options, "--deepspeed") || has(text, "deepspeed.initialize")) {
    return {"deepspeed", "DeepSpeed's launcher, option or initialize()",
            value_of(options, {"--deepspeed-config"}).has_value()};
  }
  if (has(text, "trimtab.pipelining") || has(text, "torch.distributed.pipelining")) {
    return {"pipelining", "torch.distributed.pipelining in the script", has(text, "trimtab.pipelining"), false};
  }
  const bool integrated = has(text, "trimtab.parallel");
  const auto found = [&](const char* target, const std::string& what) {
    return Recognised{target, integrated ? "trimtab.parallel in the script" : what + " in the script", integrated,
                      integrated, integrated};
  };
  if (has(text, "fully_shard") || has(text, "kind=\"fsdp2\"")) return found("fsdp2", "fully_shard");
  if (has(text, "FullyShardedDataParallel") || has(text, "kind=\"fsdp\"")) return found("fsdp", "FSDP");
  if (integrated || has(text, "DistributedDataParallel")) return found("ddp", "DDP");
  return {"", "neither the command nor its script names Megatron-LM, DeepSpeed, FSDP, DDP or a pipeline of PyTorch's",
          false};
}

bool is_framework(const std::string& target) {
  const auto names = {"transformers", "accelerate", "lightning"};
  return std::ranges::any_of(names, [&](const char* name) { return target.starts_with(name); });
}

// Without what a plan decides, and its values.
Words without_planned(const Words& options, std::span<const std::string_view> decided) {
  Words left;
  bool planned = false;
  for (const std::string& word : options) {
    if (word.starts_with("--")) {
      const std::string name = option_of(word).substr(2);
      planned = std::ranges::any_of(decided, [&](std::string_view one) {
        return name.starts_with(one) && (name.size() == one.size() || name[one.size()] == '.');
      });
    }
    if (!planned) left.push_back(word);
  }
  return left;
}

// How much of the command is Trimtab's to set.
enum class Given { kAsTyped, kPlaces, kPlan };  // kPlaces: steps and checkpoint; kPlan: these and plans

// Megatron-LM's own words for what a launch of Trimtab's needs: an end after so many steps, whose schedule stays that
// of the whole job, and a save at SIGTERM.
Words megatron_options(const Words& given, Given what) {
  Words options = what == Given::kPlan ? without_planned(given, megatron_plan_options()) : given;
  options = with_value(with_value(options, {"--save", "--load"}, "{checkpoint}"), {"--exit-interval"}, "{steps}");
  for (const char* const name : {"--save", "--load"}) {
    if (!has_option(options, name)) options.insert(options.end(), {name, "{checkpoint}"});
  }
  if (!has_option(options, "--exit-interval")) options.insert(options.end(), {"--exit-interval", "{steps}"});
  if (!has_option(options, "--exit-signal-handler")) options.emplace_back("--exit-signal-handler");
  return options;
}

// A process that no launcher starts has no number: scripts take RANK in the environment for a word of one.
bool is_told_its_rank(const CommandReading& reading) {
  return !reading.launchers.empty();
}

// What each rank runs: what the launcher would put into its environment, then the program.
Words rank_command(const CommandReading& reading, const Recognised& recognised, Given what) {
  Words words;
  if (is_told_its_rank(reading)) {
    words = {"env", "RANK={rank}", "LOCAL_RANK={local_rank}", "WORLD_SIZE={world_size}", "MASTER_ADDR={master_addr}"};
  }
  Words options = reading.script_options;
  const bool python = !reading.module.empty() || reading.script.ends_with(".py");
  if (!python) {
    words.insert(words.end(), reading.rank_words.begin(), reading.rank_words.end() - std::ssize(options));
  } else {
    words.push_back(reading.interpreter.empty() ? "python3" : reading.interpreter);
    words.emplace_back("-u");
    if (recognised.target == "megatron") words.insert(words.end(), {"-m", "trimtab.megatron"});
    if (!reading.module.empty()) words.emplace_back("-m");
    words.push_back(reading.module.empty() ? reading.script : reading.module);
  }
  if (what != Given::kAsTyped && recognised.target == "megatron") {
    if (what == Given::kPlan) words.emplace_back("{target_arguments}");
    options = megatron_options(options, what);
  } else if (what != Given::kAsTyped) {
    if (what == Given::kPlan && recognised.target == "deepspeed")
      options = with_value(options, {"--deepspeed-config"}, "{target_config}");
    if (what == Given::kPlan && is_framework(recognised.target)) {
      options = without_planned(options, framework_plan_options(recognised.target));
      options.emplace_back("{target_arguments}");
    }
    options = with_value(with_value(options, kStepOptions, "{steps}"), kCheckpointOptions, "{checkpoint}");
  }
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

std::string name_of(const CommandReading& reading) {
  std::string name = !reading.script.empty()   ? reading.script
                     : !reading.module.empty() ? reading.module
                                               : reading.program;
  name = name.substr(name.rfind('/') + 1);
  if (const std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0) name.resize(dot);
  for (char& c : name) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!plain) c = '-';
  }
  return name.empty() ? "job" : name.substr(0, 48);
}

// Megatron-LM's batch where nobody says one: a microbatch of each replica.
Words with_usual_batch(const Words& options, std::int32_t world_size) {
  const std::string name = "--global-batch-size";
  if (has_option(options, name)) return options;
  std::int64_t ranks_of_replica = 1;
  for (const char* const degree :
       {"--tensor-model-parallel-size", "--pipeline-model-parallel-size", "--context-parallel-size"}) {
    ranks_of_replica *= parse_number<std::int32_t>(value_of(options, {degree}).value_or("1")).value_or(0);
  }
  const auto samples = parse_number<std::int32_t>(value_of(options, {"--micro-batch-size"}).value_or(""));
  if (!samples || ranks_of_replica < 1 || world_size % ranks_of_replica != 0) return options;
  Words all = options;
  all.insert(all.end(), {name, std::to_string(*samples * (world_size / ranks_of_replica))});
  return all;
}

constexpr const char* kModulesOfItsSizes =
    "# Modules of the same sizes are timed instead of the framework's own. Trials correct what differs.\n";

std::string benchmark_of_sizes(const std::string& python, const CommandFacts& facts) {
  return "benchmark = " +
         array_of({python, "-m", "trimtab.megatron_benchmark", "--device", facts.devices ? "cuda" : "cpu", "--requests",
                   "{requests}", "--rank", "{rank}", "--local-rank", "{local_rank}", "--world-size", "{world_size}",
                   "--rendezvous", "{rendezvous}"}) +
         "\n";
}

// Samples of a step, as the command's options or a script that uses trimtab.parallel say them.
std::optional<std::int32_t> global_batch_of(const CommandReading& reading, const std::string& script_text,
                                            std::int32_t ranks) {
  const auto said = value_of(reading.script_options, {"--global-batch", "--global-batch-size"});
  if (said) return parse_number<std::int32_t>(*said);
  const auto script = parallel_script(script_text, reading.script_options);
  return script ? script->global_batch(ranks) : std::nullopt;
}

// Two lines of the file that say how the model and its costs come about; commented out where nobody knows them.
std::string model_lines(const CommandReading& reading, const Recognised& recognised, const JobDraft& draft,
                        const CommandFacts& facts) {
  const std::string python = reading.interpreter.empty() ? "python3" : reading.interpreter;
  const std::string mark = draft.plans ? "" : "# ";
  if (recognised.target == "megatron") {
    Words extract{"trimtab", "model", "extract", "--name", draft.name, "--"};
    const Words options = with_usual_batch(reading.script_options, draft.world_size);
    extract.insert(extract.end(), options.begin(), options.end());
    return "# The model, from Megatron-LM's arguments. Bytes and shapes are Megatron-LM's own.\ndescribe = " +
           array_of(extract) + "\n" + kModulesOfItsSizes + benchmark_of_sizes(python, facts);
  }
  if (!draft.describe.empty()) {
    return "# The model, by its sizes.\ndescribe = " + array_of(draft.describe) + "\n" + kModulesOfItsSizes +
           benchmark_of_sizes(python, facts);
  }
  const std::string layers = facts.layers.empty() ? "my_model:layers" : facts.layers;
  const auto known = global_batch_of(reading, facts.script_text, draft.world_size);
  const std::string batch = std::to_string(known.value_or(32));
  std::string text;
  if (facts.layers.empty()) {
    text =
        "# TO DO, so that plans can be found: a function layers() in a file my_model.py, which returns the model's "
        "layers in order\n# and one sample (docs/targets.md, \"model.json\"). Then take the '#' away from the next "
        "two commands.\n";
  }
  text +=
      std::string(known ? "# " : "# CHECK: ") + "--global-batch is the samples of one step, of all ranks together.\n";
  text += mark + "describe = " +
          array_of({python, "-m", "trimtab.module_model", layers, "--global-batch", batch, "--name", draft.name}) +
          "\n";
  return text + mark + "benchmark = " +
         array_of({python, "-m", "trimtab.module_benchmark", layers, "--requests", "{requests}", "--rank", "{rank}",
                   "--world-size", "{world_size}", "--rendezvous", "{rendezvous}"}) +
         "\n";
}

std::string mode_lines(const JobDraft& draft, bool tune) {
  if (tune && draft.tunes) return "mode = \"auto\"\n";
  if (draft.plans) {
    return "# It measures, names a faster plan and tries none. \"auto\" tries plans and keeps the fastest.\n"
           "mode = \"recommend\"\n";
  }
  return "# It launches and shows the job and changes nothing. With the TO DOs below done: "
         "\"recommend\", then \"auto\".\nmode = \"observe\"\n";
}

std::string head(const Words& command, const Recognised& recognised, const JobDraft& draft, bool tune) {
  std::string text = "# Written by 'trimtab init' for the command\n#   " + printable(joined(command, " ")) + "\n";
  text +=
      "# Lines with CHECK are guesses. 'trimtab doctor --job FILE' says what is missing, 'trimtab tune --job FILE' "
      "runs it.\n";
  text += "# What each key means: docs/settings.md.\n\n";
  text += "schema = \"trimtab.job/1\"\nname = " + toml_text(draft.name) + "\n" + mode_lines(draft, tune);
  const std::string delivery =
      draft.live
          ? "# Plans change as it trains: nothing is stopped, and no checkpoint is needed.\ndelivery = \"live\"\n"
          : std::string(draft.tunes ? "" : "# ") + "delivery = \"restart\"\n";
  if (recognised.target.empty()) {
    return text + "# No target: " + recognised.why + ".\n" + (draft.tunes ? delivery : "");
  }
  return text + "# CHECK: recognised by " + recognised.why + ".\n" + (draft.plans ? "" : "# ") +
         "target = " + toml_text(recognised.target) + "\n" + delivery;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 16 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string checkpoint_lines(const CommandReading& reading, const CommandFacts& facts, const DraftWishes& wishes,
                             const JobDraft& draft) {
  if (!draft.tunes || draft.live) return "";
  const std::string named = value_of(reading.script_options, kCheckpointOptions).value_or("");
  const std::string typed = named == "{checkpoint}" ? "" : named;
  const std::string checkpoint = !wishes.checkpoint.empty() ? wishes.checkpoint : typed.empty() ? "checkpoint" : typed;
  const bool is_whole = checkpoint.starts_with("/") || is_url(checkpoint);
  const std::string folder = is_whole || facts.directory == "." ? "" : facts.directory + "/";
  const char* const guess =
      "# CHECK: where the job saves and resumes. The script must take the folder from {checkpoint} in train.\n";
  return (draft.saves ? "" : guess) + ("checkpoint = " + toml_text(folder + checkpoint)) + "\n";
}

std::string sizes(const CommandReading& reading, const CommandFacts& facts, const DraftWishes& wishes,
                  const JobDraft& draft) {
  const std::string typed = value_of(reading.script_options, kStepOptions).value_or("");
  const std::string steps = wishes.steps ? std::to_string(*wishes.steps) : typed;
  std::string text = checkpoint_lines(reading, facts, wishes, draft);
  const bool said = !reading.launchers.empty() && reading.world_size();
  if (!said) text += facts.devices ? "# CHECK: the GPUs of this machine.\n" : "# CHECK: how many ranks.\n";
  text += "world_size = " + std::to_string(draft.world_size) + "\n";
  text += draft.counts ? "steps = " + steps + "\n" : "# CHECK: the steps that the job trains in all.\nsteps = 1000\n";
  if (draft.plan) {
    text += "# What the command runs now, read from its arguments.\n" + std::string(draft.plans ? "" : "# ") +
            "initial_plan = " + toml_text(kPlanFile) + "\n";
  }
  return text + "working_directory = " + toml_text(facts.directory) + "\n";
}

std::string commands(const CommandReading& reading, const Recognised& recognised, const JobDraft& draft,
                     const CommandFacts& facts) {
  const Given what = draft.live    ? Given::kAsTyped
                     : draft.plans ? Given::kPlan
                     : draft.tunes ? Given::kPlaces
                                   : Given::kAsTyped;
  std::string text = "\n[commands]\n";
  if (!recognised.target.empty()) text += model_lines(reading, recognised, draft, facts);
  if (is_told_its_rank(reading))
    text += "# Started once for each rank, which finds its number in the environment, as under torchrun.\n";
  text += "train = " + array_of(rank_command(reading, recognised, what)) + "\n";
  if (draft.plans || !recognised.integrated) return text;
  return text +
         "# The same once it is given plans:\n# train = " + array_of(rank_command(reading, recognised, Given::kPlan)) +
         "\n";
}

// `hooks`: the ranks are watched as under `trimtab run`, since their script tells nothing itself.
std::map<std::string, std::string> environment_of(const CommandReading& reading, const CommandFacts& facts,
                                                  bool hooks) {
  std::map<std::string, std::string> all = reading.environment;
  for (const auto& [name, value] : facts.launcher_environment) all[name] = value;
  if (is_told_its_rank(reading)) all.try_emplace("MASTER_PORT", std::to_string(facts.meeting_port));
  Words folders;
  if (hooks) folders.push_back(facts.hook);
  if (!all["PYTHONPATH"].empty()) folders.push_back(all["PYTHONPATH"]);
  folders.insert(folders.end(), facts.python_path.begin(), facts.python_path.end());
  std::erase(folders, "");
  all["PYTHONPATH"] = joined(folders, ":");
  if (folders.empty()) all.erase("PYTHONPATH");
  return all;
}

std::string environment(const CommandReading& reading, const CommandFacts& facts, bool hooks) {
  std::string text = "\n[environment]\n";
  if (hooks) text += "# The script's steps are told by hooks, as under 'trimtab run'.\nTRIMTAB_WATCH = \"1\"\n";
  for (const auto& [name, value] : environment_of(reading, facts, hooks))
    text += name + " = " + toml_text(value) + "\n";
  return text;
}

std::string text_of(const OwnSettings& settings) {
  return joined(settings, " ", [](const auto& one) { return one.first + "=" + one.second; });
}

// ZeroRedundancyOptimizer has its states on other ranks, which only a launch places.
std::string live_knobs(const JobDraft& draft) {
  const bool holds = draft.live && draft.target == "ddp";
  return holds ? "\n[knobs]\n# Optimizer states stay where they are as the job trains.\nsharded = false\n" : "";
}

std::string own_knobs(const std::vector<OwnKnob>& knobs) {
  if (knobs.empty()) return "";
  std::string values = "\n[knobs.own]\n";
  std::string classes;
  for (const OwnKnob& knob : knobs) {
    Words texts;
    for (const OwnSettings& value : knob.values) {
      const bool alone = value.size() == 1 && value.contains(knob.name);
      texts.push_back(alone ? value.begin()->second : text_of(value));
    }
    values += toml_text(knob.name) + " = " + array_of(texts) + "\n";
    if (knob.change_class != OwnKnob().change_class)
      classes += toml_text(knob.name) + " = " + toml_text(knob.change_class) + "\n";
  }
  return values + (classes.empty() ? "" : "\n[knobs.own_class]\n" + classes);
}

// The model and the plan that Megatron-LM's arguments say, or a remark why they say none.
void add_plan(const CommandReading& reading, JobDraft& draft) {
  const Words options = with_usual_batch(reading.script_options, draft.world_size);
  const auto read = [&]() -> Status {
    TRIMTAB_TRY(MegatronModel model, model_from_megatron(options, draft.name));
    TRIMTAB_TRY(draft.plan, plan_from_megatron(options, model.model, draft.world_size));
    draft.model = std::move(model.model);
    return {};
  };
  if (const Status done = read(); !done.ok()) draft.remarks.push_back("no plan is written: " + done.error().message);
}

// The same of a framework that says its plan in arguments and files of its own.
void add_framework_plan(const CommandReading& reading, const CommandFacts& facts, JobDraft& draft) {
  auto said = framework_plan(reading.script_options, facts, draft.world_size, draft.name);
  if (!said.ok()) {
    draft.remarks.push_back("no plan is written: " + said.error().message);
    return;
  }
  draft.plan = std::move(said->plan);
  draft.model = std::move(said->model);
  draft.describe = std::move(said->describe);
  // LightningCLI still reads its file and these words itself, but for the strategy, which plans replace.
  if (draft.target.starts_with("lightning")) {
    std::erase_if(said->passed_over, [](const auto& path) { return !path.starts_with("trainer.strategy."); });
  }
  // accelerate's are in the ranks' environment, or named there.
  if (said->passed_over.empty() || draft.target.starts_with("accelerate")) return;
  draft.unread.push_back("what " + facts.plan_file->source + " says beyond the plan: " + joined(said->passed_over));
}

// The plan that a script of trimtab.parallel runs by itself, where its model was asked for.
void add_parallel_plan(const CommandReading& reading, const CommandFacts& facts, JobDraft& draft) {
  const auto script = parallel_script(facts.script_text, reading.script_options);
  if (facts.layers_model.empty() || !script || !script->samples) return;
  const auto read = [&]() -> Status {
    TRIMTAB_TRY(Model model, parse_model(facts.layers_model, facts.layers));
    if (script->kind != draft.target) {
      return bad_input(script->load + " says kind " + script->kind + ", the script's text " + draft.target);
    }
    TRIMTAB_TRY(draft.plan, own_plan(*script, model, draft.world_size));
    draft.model = std::move(model);
    return {};
  };
  if (const Status done = read(); !done.ok()) draft.remarks.push_back("no plan is written: " + done.error().message);
}

// Options of `accelerate launch` that only say where processes are.
const Names kPlacesOfAccelerate{
    "--num-processes",     "--num-machines", "--machine-rank", "--main-process-ip", "--multi-gpu",
    "--main-process-port", "--gpu-ids",      "--cpu",          "--same-network",    "--num-cpu-threads-per-process"};

// What a launcher says of the training, which ranks that start without it would not have.
void add_unread(const Words& command, const CommandReading& reading, const CommandFacts& facts, JobDraft& draft) {
  if (!reading.launchers.empty() && !reading.world_size() && !facts.devices) {
    draft.unread.emplace_back("how many ranks the launcher starts, which its options do not say here");
  }
  if (!reading.launched_by("accelerate")) return;
  for (const std::string& one : facts.launcher_unread) {
    draft.unread.push_back("accelerate's " + one + ", which ranks without accelerate's launcher do not have");
  }
  const auto begin = std::ranges::find(command, "launch");
  const auto end = std::find(begin, command.end(), reading.script.empty() ? reading.module : reading.script);
  for (auto word = begin; word != end; ++word) {
    const std::string name = option_of(*word);
    const bool said = !facts.launcher_environment.empty() && name.starts_with("--");
    if (said && is_accelerate_option(name.substr(2))) continue;
    if (!name.starts_with("--") || std::ranges::find(kPlacesOfAccelerate, name) != kPlacesOfAccelerate.end()) continue;
    draft.unread.push_back("accelerate's " + *word + ", which ranks without accelerate's launcher do not have");
  }
}

void add_remarks(const CommandReading& reading, const Recognised& recognised, const CommandFacts& facts,
                 JobDraft& draft) {
  if (reading.is_shell_script()) {
    draft.remarks.push_back(reading.script +
                            " is started once for each rank. If it launches ranks itself, give init the command in it");
  }
  if (draft.tunes && !draft.plans) return;
  if (!recognised.target.empty() && !recognised.integrated) {
    const bool pipelining = recognised.target == "pipelining";
    draft.remarks.push_back(std::string("the script takes no plan yet: docs/targets.md, \"A ") +
                            (pipelining ? "pipeline of PyTorch's in six lines\"" : "DDP or FSDP job in five lines\""));
  }
  if (!draft.plans) {
    draft.remarks.push_back(
        "until its TO DOs are done the job is only observed; 'trimtab run -- COMMAND' does that "
        "without any file");
  } else if (recognised.target != "megatron" && !draft.plan && !facts.layers.empty()) {
    draft.remarks.push_back("the model's layers are those of " + facts.layers + "()");
  }
}

CommandReading reading_of(const Words& command, const CommandFacts& facts) {
  CommandReading reading = read_command(command);
  // torchrun starts its ranks with the interpreter that it has itself.
  if (reading.interpreter.empty() && !reading.launchers.empty()) reading.interpreter = facts.interpreter;
  if (!reading.world_size()) reading.processes = facts.launcher_processes;
  return reading;
}

std::int32_t ranks_of(const CommandReading& reading, const CommandFacts& facts) {
  return reading.launchers.empty() ? 1 : reading.world_size().value_or(facts.devices.value_or(1));
}

}  // namespace

std::optional<ModuleModel> wanted_layers_model(const std::vector<std::string>& command, const CommandFacts& facts,
                                               const DraftWishes& wishes) {
  if (!wishes.tune || !wishes.own_knobs.empty() || facts.layers.empty()) return std::nullopt;
  const CommandReading reading = reading_of(command, facts);
  if (!recognise(reading, facts).live) return std::nullopt;
  const auto batch = global_batch_of(reading, facts.script_text, ranks_of(reading, facts));
  if (!batch) return std::nullopt;
  ModuleModel wanted{reading.interpreter.empty() ? "python3" : reading.interpreter,
                     facts.layers,
                     std::to_string(*batch),
                     name_of(reading),
                     {}};
  for (const auto& [name, value] : environment_of(reading, facts, false))
    wanted.environment.push_back(name + "=" + value);
  return wanted;
}

JobDraft draft_job(const std::vector<std::string>& command, const CommandFacts& facts, const DraftWishes& wishes) {
  const CommandReading reading = reading_of(command, facts);
  const Recognised recognised = recognise(reading, facts);
  const Words& options = reading.script_options;
  JobDraft draft;
  draft.target = recognised.target;
  draft.why = recognised.why;
  draft.name = name_of(reading);
  draft.world_size = ranks_of(reading, facts);
  const bool framework = is_framework(recognised.target);
  if (recognised.target == "megatron") add_plan(reading, draft);
  if (framework) add_framework_plan(reading, facts, draft);
  const bool says = framework || recognised.target == "megatron";
  draft.plans = recognised.integrated && (says ? draft.plan.has_value() : !facts.layers.empty());
  draft.usual = wishes.tune && !draft.plans && wishes.own_knobs.empty();
  const std::vector<OwnKnob> tried =
      draft.usual ? usual_knobs(options, facts.devices, facts.threads, draft.world_size) : wishes.own_knobs;
  draft.tunes = draft.plans || !tried.empty();
  draft.live = draft.plans && recognised.live && wishes.own_knobs.empty();
  if (draft.live) add_parallel_plan(reading, facts, draft);
  draft.saves = value_of(options, kCheckpointOptions) || recognised.target == "megatron" ||
                std::ranges::any_of(options, [](const auto& word) { return has(word, "{checkpoint}"); });
  draft.counts = wishes.steps || is_number(value_of(options, kStepOptions).value_or(""));
  const bool needs_hooks = draft.tunes && !recognised.tells;
  const bool hooks = needs_hooks && !facts.hook.empty();
  if (needs_hooks && !hooks && !facts.no_hook.empty())
    draft.unread.push_back("the hooks that tell its steps (" + facts.no_hook + ")");
  draft.toml = head(command, recognised, draft, wishes.tune) + sizes(reading, facts, wishes, draft) +
               commands(reading, recognised, draft, facts) + environment(reading, facts, hooks) + live_knobs(draft) +
               own_knobs(tried);
  add_unread(command, reading, facts, draft);
  if (wishes.tune && draft.live && !global_batch_of(reading, facts.script_text, draft.world_size)) {
    draft.unread.emplace_back(
        "how many samples a step has, which neither --global-batch says nor a number or an option of the command in "
        "trimtab.parallel.load(batch_size=...)");
  }
  for (const std::string& one : draft.unread) draft.remarks.push_back("not read: " + one);
  add_remarks(reading, recognised, facts, draft);
  return draft;
}

}  // namespace trimtab::cli
