#include "init/job_draft.hpp"

#include <algorithm>

#include "schema/job.hpp"
#include "schema/megatron_model.hpp"
#include "schema/megatron_plan.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using Words = std::vector<std::string>;
using Names = std::vector<std::string_view>;

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

// What an option's name begins with: "--micro-batch-size=2" and "--micro_batch_size".
std::string option_of(const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  return name;
}

// The value of the first of these options; nothing where none is given.
std::optional<std::string> value_of(const Words& words, const Names& names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(names, option_of(words[i])) == names.end()) continue;
    const std::size_t equals = words[i].find('=');
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    if (i + 1 < words.size()) return words[i + 1];
  }
  return std::nullopt;
}

bool has_option(const Words& words, std::string_view name) {
  return std::ranges::any_of(words, [&](const std::string& word) { return option_of(word) == name; });
}

// The words with another value of these options.
Words with_value(Words words, const Names& names, const std::string& value) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (std::ranges::find(names, option_of(words[i])) == names.end()) continue;
    const std::size_t equals = words[i].find('=');
    if (equals != std::string::npos) words[i].replace(equals + 1, std::string::npos, value);
    if (equals == std::string::npos && i + 1 < words.size()) words[++i] = value;
  }
  return words;
}

const Names kStepOptions{"--steps", "--max-steps", "--train-iters", "--max-iters", "--num-steps"};
const Names kCheckpointOptions{"--checkpoint", "--save", "--checkpoint-dir"};

struct Recognised {
  std::string target;
  std::string why;
  bool integrated = false;  // the script reads plans already
};

Recognised recognise(const CommandReading& reading, const std::string& text) {
  const Words& options = reading.script_options;
  if (value_of(options, {"--tensor-model-parallel-size", "--pipeline-model-parallel-size"}) ||
      (value_of(options, {"--micro-batch-size"}) && value_of(options, {"--num-layers"})) ||
      has(text, "from megatron")) {
    return {"megatron", "Megatron-LM's arguments, or its modules in the script", true};
  }
  if (reading.launched_by("deepspeed") || has_option(options, "--deepspeed-config") ||
      has_option(options, "--deepspeed") || has(text, "deepspeed.initialize")) {
    return {"deepspeed", "DeepSpeed's launcher, option or initialize()",
            value_of(options, {"--deepspeed-config"}).has_value()};
  }
  const bool integrated = has(text, "trimtab.parallel");
  if (has(text, "FullyShardedDataParallel") || has(text, "fully_shard") || has(text, "kind=\"fsdp\"")) {
    return {"fsdp", "FSDP in the script", integrated};
  }
  if (integrated || has(text, "DistributedDataParallel")) return {"ddp", "DDP in the script", integrated};
  return {"", "neither the command nor its script names Megatron-LM, DeepSpeed, FSDP or DDP", false};
}

// Without what a plan decides, and its values.
Words without_planned(const Words& options) {
  Words left;
  bool planned = false;
  for (const std::string& word : options) {
    if (word.starts_with("--")) {
      const std::string name = option_of(word).substr(2);
      planned = std::ranges::find(megatron_plan_options(), name) != megatron_plan_options().end();
    }
    if (!planned) left.push_back(word);
  }
  return left;
}

// What each rank runs, where it is `planned` with the placeholders by which it is given plans: what the launcher would
// put into its environment, then the program.
Words rank_command(const CommandReading& reading, const Recognised& recognised, bool planned) {
  Words words;
  if (!reading.is_shell_script()) {
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
  if (planned && recognised.target == "megatron") {
    options = with_value(without_planned(options), {"--save", "--load"}, "{checkpoint}");
    words.emplace_back("{target_arguments}");
  } else if (planned) {
    if (recognised.target == "deepspeed") options = with_value(options, {"--deepspeed-config"}, "{target_config}");
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

// Two lines of the file that say how the model and its costs come about; commented out where nobody knows them.
std::string model_lines(const CommandReading& reading, const Recognised& recognised, const JobDraft& draft,
                        const CommandFacts& facts) {
  const std::string python = reading.interpreter.empty() ? "python3" : reading.interpreter;
  const std::string mark = draft.plans ? "" : "# ";
  if (recognised.target == "megatron") {
    Words extract{"trimtab", "model", "extract", "--name", draft.name, "--"};
    extract.insert(extract.end(), reading.script_options.begin(), reading.script_options.end());
    return "# The model, from Megatron-LM's arguments. Bytes and shapes are Megatron-LM's own.\ndescribe = " +
           array_of(extract) +
           "\n# CHECK: the operators' benchmark. examples/megatron/benchmark.py of Trimtab times modules of the same "
           "sizes;\n# copy it here, and the arguments above into arguments.txt.\n" +
           mark + "benchmark = " +
           array_of({python, "benchmark.py", "--arguments", "arguments.txt", "--device", "cuda", "--requests",
                     "{requests}", "--rank", "{rank}", "--local-rank", "{local_rank}", "--world-size", "{world_size}",
                     "--rendezvous", "{rendezvous}"}) +
           "\n";
  }
  const std::string layers = facts.layers.empty() ? "my_model:layers" : facts.layers;
  const std::string batch = value_of(reading.script_options, {"--global-batch", "--global-batch-size"}).value_or("32");
  std::string text;
  if (facts.layers.empty()) {
    text =
        "# TO DO, so that plans can be found: a function layers() in a file my_model.py, which returns the model's "
        "layers in order\n# and one sample (docs/targets.md, \"model.json\"). Then take the '#' away from the next "
        "two commands.\n";
  }
  text += "# CHECK: --global-batch is the samples of one step, of all ranks together.\n";
  text += mark + "describe = " +
          array_of({python, "-m", "trimtab.module_model", layers, "--global-batch", batch, "--name", draft.name}) +
          "\n";
  return text + mark + "benchmark = " +
         array_of({python, "-m", "trimtab.module_benchmark", layers, "--requests", "{requests}", "--rank", "{rank}",
                   "--world-size", "{world_size}", "--rendezvous", "{rendezvous}"}) +
         "\n";
}

std::string head(const Words& command, const Recognised& recognised, const JobDraft& draft) {
  std::string text = "# Written by 'trimtab init' for the command\n#   " + printable(joined(command, " ")) + "\n";
  text +=
      "# Lines with CHECK are guesses. 'trimtab doctor --job FILE' says what is missing, 'trimtab tune --job FILE' "
      "runs it.\n";
  text += "# What each key means: docs/settings.md.\n\n";
  text += "schema = \"trimtab.job/1\"\nname = " + toml_text(draft.name) + "\n";
  text += draft.plans
              ? "# It measures, names a faster plan and tries none. \"auto\" tries plans and keeps the fastest.\n"
                "mode = \"recommend\"\n"
              : "# It launches and shows the job and changes nothing. With the TO DOs below done: "
                "\"recommend\", then \"auto\".\nmode = \"observe\"\n";
  if (recognised.target.empty()) return text + "# No target: " + recognised.why + ".\n";
  return text + "# CHECK: recognised by " + recognised.why + ".\n" + (draft.plans ? "" : "# ") +
         "target = " + toml_text(recognised.target) + "\n" + (draft.plans ? "" : "# ") + "delivery = \"restart\"\n";
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 16 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::string sizes(const CommandReading& reading, const CommandFacts& facts, const JobDraft& draft) {
  const Words& options = reading.script_options;
  const std::string checkpoint = value_of(options, kCheckpointOptions).value_or("");
  const std::string steps = value_of(options, kStepOptions).value_or("");
  const std::string folder = checkpoint.starts_with("/") || facts.directory == "." ? "" : facts.directory + "/";
  std::string text;
  if (draft.plans && checkpoint.empty()) {
    text += "# CHECK: where the job saves and resumes. The script must take the folder from {checkpoint} in train.\n";
  }
  if (draft.plans)
    text += "checkpoint = " + toml_text(folder + (checkpoint.empty() ? "checkpoint" : checkpoint)) + "\n";
  const bool said = !reading.launchers.empty() && reading.world_size();
  if (!said) text += facts.devices ? "# CHECK: the GPUs of this machine.\n" : "# CHECK: how many ranks.\n";
  text += "world_size = " + std::to_string(draft.world_size) + "\n";
  text +=
      is_number(steps) ? "steps = " + steps + "\n" : "# CHECK: the steps that the job trains in all.\nsteps = 1000\n";
  if (draft.plan) {
    text += "# What the command runs now, read from its arguments.\n" + std::string(draft.plans ? "" : "# ") +
            "initial_plan = " + toml_text(kPlanFile) + "\n";
  }
  return text + "working_directory = " + toml_text(facts.directory) + "\n";
}

std::string commands(const CommandReading& reading, const Recognised& recognised, const JobDraft& draft,
                     const CommandFacts& facts) {
  std::string text = "\n[commands]\n";
  if (!recognised.target.empty()) text += model_lines(reading, recognised, draft, facts);
  text += "# Started once for each rank, which finds its number in the environment, as under torchrun.\ntrain = " +
          array_of(rank_command(reading, recognised, draft.plans)) + "\n";
  if (draft.plans || !recognised.integrated) return text;
  return text + "# The same once it is given plans:\n# train = " + array_of(rank_command(reading, recognised, true)) +
         "\n";
}

std::string environment(const CommandReading& reading, const CommandFacts& facts) {
  std::map<std::string, std::string> all = reading.environment;
  all.try_emplace("MASTER_PORT", "29517");
  std::string& path = all["PYTHONPATH"];
  for (const std::string& folder : facts.python_path) path += (path.empty() ? "" : ":") + folder;
  if (path.empty()) all.erase("PYTHONPATH");
  std::string text = "\n[environment]\n";
  for (const auto& [name, value] : all) text += name + " = " + toml_text(value) + "\n";
  return text;
}

// The plan that Megatron-LM's arguments say, or a remark why they say none.
void add_plan(const CommandReading& reading, JobDraft& draft) {
  const auto read = [&]() -> Result<Plan> {
    TRIMTAB_TRY(const MegatronModel model, model_from_megatron(reading.script_options, draft.name));
    return plan_from_megatron(reading.script_options, model.model, draft.world_size);
  };
  auto plan = read();
  if (plan.ok()) {
    draft.plan = std::move(*plan);
  } else {
    draft.remarks.push_back("no plan is written: " + plan.error().message);
  }
}

void add_remarks(const CommandReading& reading, const Recognised& recognised, const CommandFacts& facts,
                 JobDraft& draft) {
  if (reading.is_shell_script()) {
    draft.remarks.push_back(reading.script +
                            " is started once for each rank. If it launches ranks itself, give init the command in it");
  }
  if (!recognised.target.empty() && !recognised.integrated) {
    draft.remarks.push_back("the script takes no plan yet: docs/targets.md, \"A DDP or FSDP job in five lines\"");
  }
  if (!draft.plans) {
    draft.remarks.push_back(
        "until its TO DOs are done the job is only observed; 'trimtab run -- COMMAND' does that "
        "without any file");
  } else if (recognised.target != "megatron" && !facts.layers.empty()) {
    draft.remarks.push_back("the model's layers are those of " + facts.layers + "()");
  }
}

}  // namespace

JobDraft draft_job(const std::vector<std::string>& command, const CommandFacts& facts) {
  CommandReading reading = read_command(command);
  // torchrun starts its ranks with the interpreter that it has itself.
  if (reading.interpreter.empty() && !reading.launchers.empty()) reading.interpreter = facts.interpreter;
  const Recognised recognised = recognise(reading, facts.script_text);
  JobDraft draft;
  draft.target = recognised.target;
  draft.why = recognised.why;
  draft.name = name_of(reading);
  draft.world_size = reading.launchers.empty() ? 1 : reading.world_size().value_or(facts.devices.value_or(1));
  draft.plans = recognised.integrated && recognised.target != "megatron" && !facts.layers.empty();
  if (recognised.target == "megatron") add_plan(reading, draft);
  draft.toml = head(command, recognised, draft) + sizes(reading, facts, draft) +
               commands(reading, recognised, draft, facts) + environment(reading, facts);
  add_remarks(reading, recognised, facts, draft);
  return draft;
}

}  // namespace trimtab::cli
