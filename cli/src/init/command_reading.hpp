#pragma once

// What a command line that somebody types to train says: who launches, on how many processes, and which script. Pure.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::cli {

struct CommandReading {
  std::map<std::string, std::string> environment;  // NAME=VALUE in front, or behind `env`
  std::vector<std::string> launchers;              // by name, the outermost first: "srun", "torchrun"
  std::optional<std::int32_t> per_node;            // processes, as the launchers' arguments say
  bool is_counted_there = false;                   // by the machine that launches: "gpu", "auto"
  std::optional<std::int32_t> nodes;
  std::optional<std::int32_t> processes;    // in all, where an argument says that
  std::string interpreter;                  // "python3", as it is named; empty: none is
  std::string script;                       // train.py, or a shell script; empty: a module or a program
  std::string module;                       // of -m
  std::string program;                      // what becomes a rank: the interpreter, the shell script or another program
  std::vector<std::string> rank_words;      // from it on
  std::vector<std::string> script_options;  // behind script or module
  std::vector<std::string> launch_options;  // of the innermost launcher

  [[nodiscard]] bool launched_by(std::string_view name) const;
  // It starts no launcher that is known, and no Python.
  [[nodiscard]] bool is_shell_script() const;
  // Processes in all. Nothing: no argument says so.
  [[nodiscard]] std::optional<std::int32_t> world_size() const;
};

// Launchers (torchrun, accelerate, deepspeed, srun, mpirun) with their options, env, nohup and the like, and an
// interpreter with its own are passed over. Of an option that is not known, the next word is taken as its value where
// it looks like none of its own.
[[nodiscard]] CommandReading read_command(const std::vector<std::string>& words);

}  // namespace trimtab::cli
