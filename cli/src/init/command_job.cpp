#include "init/command_job.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text_parts.hpp"
#include "daemons/process.hpp"
#include "files.hpp"
#include "host/gpu_inventory.hpp"
#include "init/framework_plan.hpp"
#include "init/option_words.hpp"
#include "init/script_command.hpp"
#include "local_port.hpp"
#include "plans/plan_source.hpp"
#include "run/parts.hpp"
#include "schema/accelerate_environment.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostOfScript = 1U << 20;

// The beginning of a file; empty where it is none, or cannot be read.
std::string beginning_of(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  std::ifstream stream(path, std::ios::binary);
  std::string text(kMostOfScript, '\0');
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

// A file of the folder that has a function layers(): what trimtab.module_model asks for.
std::string layers_in(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".py") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    const std::string text = "\n" + beginning_of(file);
    if (text.find("\ndef layers():") != std::string::npos) return file.stem().string() + ":layers";
  }
  return "";
}

std::optional<std::int32_t> gpus_here() {
  const char* named = std::getenv("TRIMTAB_NVML");
  constexpr Nanoseconds kPatience = std::chrono::seconds(10);
  const auto inventory = host::read_gpu_inventory(named == nullptr ? host::kNvmlLibrary : named, kPatience);
  if (inventory.gpus.empty()) return std::nullopt;
  return static_cast<std::int32_t>(inventory.gpus.size());
}

// Of "#!/opt/venv/bin/python3", the first line of a launcher that is found in PATH.
std::string interpreter_of(const std::string& launcher) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = launcher.find('/') == std::string::npos ? fs::path(folder) / launcher : fs::path(launcher);
    const std::string text = beginning_of(file);
    if (text.empty()) continue;
    const std::string line = text.starts_with("#!/") ? text.substr(2, text.find('\n') - 2) : "";
    return line.find("python") != std::string::npos && line.find(' ') == std::string::npos ? line : "";
  }
  return "";
}

// Jobs that are tuned on one machine at the same time meet at ports of their own, also while one of them is between
// two launches.
std::uint16_t meeting_port(bool tune) {
  const int apart = tune ? getpid() % 1000 : 0;
  return free_port_from(static_cast<std::uint16_t>(CommandFacts().meeting_port + apart));
}

// The model that a Trainer is given, where that is on this disk: a folder, or its config.json.
void add_config(const CommandReading& reading, CommandFacts& facts) {
  for (const char* const option : {"--config-name", "--model-name-or-path"}) {
    const std::string named = value_of(reading.script_options, {option}).value_or("");
    const fs::path path = named.ends_with(".json") ? fs::path(named) : fs::path(named) / "config.json";
    if (named.empty() || !facts.config_text.empty()) continue;
    facts.config_path = path.string();
    facts.config_text = beginning_of(path);
  }
}

// What the frameworks' arguments say of a plan, if they do.
void add_plan_file(const std::vector<std::string>& command, CommandFacts& facts) {
  auto source = read_plan_source("", command, "");
  if (!source.ok()) return;
  if (auto* const file = std::get_if<PlanFile>(&*source)) facts.plan_file = std::move(*file);
}

// What accelerate's launcher would give the ranks. Trimtab starts them without it. Its options and defaults say a plan
// where no other framework's words do.
void add_launcher(const CommandReading& reading, const std::vector<std::string>& command, CommandFacts& facts) {
  if (!reading.launched_by("accelerate")) return;
  const auto source = read_plan_source("", command, "accelerate");
  const auto* const file = source.ok() ? std::get_if<PlanFile>(&*source) : nullptr;
  auto made = file != nullptr ? accelerate_environment(*file) : Result<AccelerateEnvironment>(source.error());
  if (!made.ok()) {
    facts.launcher_unread.push_back("configuration (" + made.error().message + ")");
    return;
  }
  facts.launcher_environment = std::move(made->variables);
  facts.launcher_processes = made->processes;
  facts.launcher_unread = std::move(made->unread);
  if (!framework_target(facts)) facts.plan_file = *file;
}

Status add_model(const std::string& path, CommandFacts& facts) {
  if (path.empty()) return {};
  facts.model_path = path;
  TRIMTAB_TRY(facts.model_text, read_file(path));
  return {};
}

CommandFacts facts_of(const CommandReading& reading, const std::vector<std::string>& command, const std::string& out,
                      bool tune) {
  CommandFacts facts;
  facts.meeting_port = meeting_port(tune);
  add_config(reading, facts);
  add_plan_file(command, facts);
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  const bool beside = !out.empty() && fs::weakly_canonical(fs::absolute(out, ignored).parent_path(), ignored) == here;
  facts.directory = beside ? "." : here.string();
  const fs::path folder = fs::path(reading.script).parent_path();
  if (!reading.script.empty()) {
    facts.script_text = beginning_of(reading.script);
    facts.layers = layers_in(folder.empty() ? fs::path(".") : folder);
    if (!folder.empty()) facts.python_path.push_back(folder.string());
  }
  add_launcher(reading, command, facts);
  const auto parts = watch_parts(program_directory());
  if (parts.ok()) {
    facts.hook = parts->client + "/watch_hook";
    facts.python_path.push_back(parts->client);
  } else {
    facts.no_hook = parts.error().message;
  }
  if (!reading.launchers.empty()) facts.interpreter = interpreter_of(reading.launchers.back());
  facts.devices = gpus_here();
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) facts.threads = CPU_COUNT(&allowed);
  return facts;
}

// Of a shell script that launches ranks, whose Python script is there: the job is that of the command inside.
std::optional<LaunchInScript> launch_inside(const CommandReading& reading) {
  if (!reading.is_shell_script()) return std::nullopt;
  auto launch = launch_in_script(beginning_of(reading.script), reading.script);
  if (!launch) return std::nullopt;
  const CommandReading inside = read_command(launch->words);
  return !inside.module.empty() || is_there(inside.script) ? std::move(launch) : std::nullopt;
}

std::string remark_on(const LaunchInScript& launch, const std::string& script) {
  std::string text = "the command is that of " + script + ", line " + std::to_string(launch.line) +
                     "; what the script does before it is not repeated, but for what it exports";
  if (!launch.unknown.empty())
    text += ". Only a run can tell these, so write their values into the file: " + joined(launch.unknown, " ");
  return text;
}

Status check_command(const std::string& verb, const CommandReading& reading) {
  if (reading.rank_words.empty()) {
    return bad_input(verb + ": needs the command that trains, behind --: trimtab " + verb +
                     " -- torchrun --nproc_per_node 2 train.py");
  }
  if (reading.script.empty() || is_there(reading.script)) return {};
  return bad_input(verb + ": the command's script '" + printable(reading.script) +
                   "' is not there; give the command as you type it, in the folder where you do");
}

}  // namespace

Result<JobDraft> job_of_command(const std::string& verb, const std::vector<std::string>& given, const std::string& out,
                                const DraftWishes& wishes) {
  CommandReading reading = read_command(given);
  TRIMTAB_TRY_STATUS(check_command(verb, reading));
  const auto launch = launch_inside(reading);
  const std::string outer = reading.script;
  const std::vector<std::string> outer_options = reading.script_options;
  const std::vector<std::string>& command = launch ? launch->words : given;
  if (launch) reading = read_command(command);
  CommandFacts facts = facts_of(reading, command, out, wishes.tune);
  TRIMTAB_TRY_STATUS(add_model(wishes.model, facts));
  std::string no_model;
  if (const auto asked = wanted_layers_model(command, facts, wishes)) {
    auto text = model_of_module(*asked);
    if (!text.ok()) no_model = text.error().message;
    facts.layers_model = text.ok() ? std::move(*text) : "";
  }
  JobDraft draft = draft_job(command, facts, wishes);
  if (!no_model.empty()) draft.remarks.push_back("what it runs now is not known: " + no_model);
  if (!launch) return draft;
  draft.remarks.insert(draft.remarks.begin(), remark_on(*launch, outer));
  for (const std::string& name : launch->unknown)
    draft.unread.push_back(name + " in " + outer + ", which only a run can tell");
  if (!outer_options.empty()) {
    draft.unread.push_back("the words behind " + outer + ": " + joined(outer_options, " "));
    draft.remarks.push_back("not read: " + draft.unread.back());
  }
  return draft;
}

std::string plan_path(const std::string& job_path) {
  return (fs::path(job_path).parent_path() / kPlanFile).string();
}

Status write_draft(const JobDraft& draft, const std::string& job_path, const std::string& who,
                   const std::string& remedy) {
  const std::string plan = draft.plan ? plan_path(job_path) : "";
  for (const std::string& path : {job_path, plan}) {
    std::error_code ignored;  // a link that leads nowhere is there, too
    if (!path.empty() && fs::exists(fs::symlink_status(path, ignored)))
      return bad_input(who + ": " + path + " is there already and stays as it is" + remedy);
  }
  if (draft.plan) TRIMTAB_TRY_STATUS(write_file(plan, to_json(*draft.plan) + "\n"));
  return write_file(job_path, draft.toml);
}

}  // namespace trimtab::cli
