// `trimtab init -- COMMAND`: job.toml for a command that somebody types to train.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "daemons/process.hpp"
#include "files.hpp"
#include "host/gpu_inventory.hpp"
#include "init/job_draft.hpp"
#include "init/script_command.hpp"
#include "json_text.hpp"
#include "plans/plan_text.hpp"
#include "schema/job.hpp"
#include "terminal_text.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string out = "job.toml";
  bool json = false;
};

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

CommandFacts facts_of(const CommandReading& reading, const fs::path& out) {
  CommandFacts facts;
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  const bool beside = fs::weakly_canonical(fs::absolute(out, ignored).parent_path(), ignored) == here;
  facts.directory = beside ? "." : here.string();
  const fs::path folder = fs::path(reading.script).parent_path();
  if (!reading.script.empty()) {
    facts.script_text = beginning_of(reading.script);
    facts.layers = layers_in(folder.empty() ? fs::path(".") : folder);
    if (!folder.empty()) facts.python_path.push_back(folder.string());
  }
  // In a checkout the client is no installed package.
  const fs::path client = fs::weakly_canonical(fs::path(program_directory()) / "../../../client/python", ignored);
  if (is_there((client / "trimtab").string())) facts.python_path.push_back(client.string());
  if (!reading.launchers.empty()) facts.interpreter = interpreter_of(reading.launchers.back());
  facts.devices = gpus_here();
  return facts;
}

Status check_free(const std::string& path) {
  if (!is_there(path)) return {};
  return bad_input("init: " + path + " is there already and stays as it is; name another file with --out FILE");
}

std::string plan_path(const std::string& out) {
  return (fs::path(out).parent_path() / kPlanFile).string();
}

Status check_place(const CommandReading& reading, const std::string& out) {
  if (reading.rank_words.empty()) {
    return bad_input(
        "init: needs the command that trains, behind --: trimtab init -- torchrun --nproc_per_node 2 train.py");
  }
  if (!reading.script.empty() && !is_there(reading.script)) {
    return bad_input("init: the command's script '" + printable(reading.script) +
                     "' is not there; give the command as you type it, in the folder where you do");
  }
  return check_free(out);
}

void say(const JobDraft& draft, const std::string& out, Console& console) {
  console.out << "wrote " << out << ": " << draft.world_size << (draft.world_size == 1 ? " rank, " : " ranks, ")
              << (draft.target.empty() ? "no target" : "target " + draft.target) << " (" << draft.why << ")\n";
  if (draft.plan)
    console.out << "wrote " << plan_path(out) << ", what the command runs: " << one_line(*draft.plan) << "\n";
  for (const std::string& remark : draft.remarks) console.out << "  - " << printable(remark) << "\n";
  console.out << "Look at its lines with CHECK. Then: trimtab doctor --job " << out << " && trimtab tune --job " << out
              << "\n";
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

Result<int> init(const Arguments& arguments, const std::vector<std::string>& given, Console& console) {
  CommandReading reading = read_command(given);
  TRIMTAB_TRY_STATUS(check_place(reading, arguments.out));
  const auto launch = launch_inside(reading);
  const std::string outer = reading.script;
  const std::vector<std::string>& command = launch ? launch->words : given;
  if (launch) reading = read_command(command);
  JobDraft draft = draft_job(command, facts_of(reading, arguments.out));
  if (launch) draft.remarks.insert(draft.remarks.begin(), remark_on(*launch, outer));
  if (draft.plan) TRIMTAB_TRY_STATUS(check_free(plan_path(arguments.out)));
  // What is written can be read again.
  const auto parsed = parse_job_toml(draft.toml, arguments.out, ".");
  if (!parsed.ok()) return wrap("init: cannot say this command in a job file", parsed.error());
  if (draft.plan) TRIMTAB_TRY_STATUS(write_file(plan_path(arguments.out), to_json(*draft.plan) + "\n"));
  TRIMTAB_TRY_STATUS(write_file(arguments.out, draft.toml));
  if (!arguments.json) {
    say(draft, arguments.out, console);
    return 0;
  }
  console.out << json_text({{"job", arguments.out},
                            {"plan", draft.plan ? plan_path(arguments.out) : ""},
                            {"name", draft.name},
                            {"target", draft.target},
                            {"world_size", draft.world_size},
                            {"mode", draft.plans ? "recommend" : "observe"},
                            {"remarks", draft.remarks}})
              << "\n";
  return 0;
}

}  // namespace

void add_init(CLI::App& root, Selection& selection) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = add_verb(root, "init", "Write job.toml and, where it says one, plan.json for the command behind --",
                            "trimtab init -- torchrun --nproc_per_node 2 train.py --steps 2000");
  add_value(verb, "--out", arguments->out, "FILE", "Where to write; a file that is there stays", Need::kHasDefault);
  add_action(verb, selection, arguments, init);
}

}  // namespace trimtab::cli
