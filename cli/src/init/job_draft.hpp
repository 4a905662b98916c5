#pragma once

// job.toml for a command that somebody types to train, as `trimtab init` writes it. Pure.

#include "init/command_reading.hpp"
#include "schema/plan.hpp"

namespace trimtab::cli {

// What the disk and the machine say.
struct CommandFacts {
  std::string directory;    // where the command is given, as the file says it: "." beside the file
  std::string script_text;  // empty: it is no script, or cannot be read
  std::string layers;       // "model:layers", a function that trimtab.module_model takes; empty: none is found
  std::string interpreter;  // that runs the launcher, by its first line; empty: it names none
  std::vector<std::string> python_path;  // folders in which a rank finds the model's module and Trimtab's client
  std::optional<std::int32_t> devices;   // of this machine; nothing: no GPU is found
};

inline constexpr std::string_view kPlanFile = "plan.json";  // beside the job file

struct JobDraft {
  std::string target;        // empty: none is recognised
  std::string why;           // by what it was recognised, or why it is not
  bool plans = false;        // the job can be given plans: describe and benchmark are known
  std::optional<Plan> plan;  // that the command runs, where its arguments say it; the file names it kPlanFile
  std::int32_t world_size = 1;
  std::string name;
  std::string toml;
  std::vector<std::string> remarks;  // what to do next, for the terminal
};

// The target that the script runs: its own words are believed before the command line's.
[[nodiscard]] JobDraft draft_job(const std::vector<std::string>& command, const CommandFacts& facts);

}  // namespace trimtab::cli
