#include "plans/module_model.hpp"

#include <cstdlib>
#include <filesystem>

#include "daemons/process.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPatience = std::chrono::minutes(30);

}  // namespace

// Its output may be long, so it goes through a file.
Result<std::string> model_of_module(const ModuleModel& asked) {
  std::string path = (std::filesystem::temp_directory_path() / "trimtab-model-XXXXXX").string();
  if (Descriptor(mkstemp(path.data())).get() < 0)
    return unavailable("cannot write beside " + path + ": make room, or set TMPDIR");
  std::vector<std::string> command = asked.environment;
  if (!command.empty()) command.insert(command.begin(), "env");
  command.insert(command.end(), {asked.python, "-m", "trimtab.module_model", asked.module, "--out", path});
  if (!asked.batch.empty()) command.insert(command.end(), {"--global-batch", asked.batch});
  if (!asked.name.empty()) command.insert(command.end(), {"--name", asked.name});
  const CommandOutcome outcome = run_command(command, SystemClock(), kPatience);
  auto text = read_file(path);
  remove_if_there(path);
  if (outcome.exit_code == 2) return bad_input(asked.module + ": " + outcome.output);
  if (outcome.exit_code != 0 || outcome.timed_out) {
    return unavailable(asked.python + " -m trimtab.module_model did not answer: " + outcome.output +
                       "\nIt needs PyTorch, and Trimtab's client/python in PYTHONPATH");
  }
  return text;
}

}  // namespace trimtab::cli
