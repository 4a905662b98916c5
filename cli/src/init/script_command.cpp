#include "init/script_command.hpp"

#include <algorithm>

#include "init/command_reading.hpp"
#include "schema/launch_script.hpp"

namespace trimtab::cli {

namespace {

bool is_unknown(const std::string& word) {
  return word.find_first_of("$`") != std::string::npos;
}

const ScriptCommand* launch_of(const std::vector<ScriptCommand>& commands) {
  const ScriptCommand* found = nullptr;
  bool launched = false;
  for (const ScriptCommand& command : commands) {
    const CommandReading reading = read_command(command.words);
    const bool python = !reading.module.empty() || reading.script.ends_with(".py");
    if (!python || (launched && reading.launchers.empty())) continue;
    found = &command;
    launched = !reading.launchers.empty();
  }
  return found;
}

}  // namespace

std::optional<LaunchInScript> launch_in_script(std::string_view text, std::string_view source) {
  const auto script = read_script(text, source);
  if (!script.ok()) return std::nullopt;
  const ScriptCommand* command = launch_of(script->commands);
  if (command == nullptr) return std::nullopt;
  LaunchInScript launch;
  launch.line = command->line;
  for (const ScriptCommand& exported : script->exports) {
    if (exported.line > command->line) continue;
    const std::string& assignment = exported.words.front();
    const std::string_view name = std::string_view(assignment).substr(0, assignment.find('=') + 1);
    std::erase_if(launch.words, [&](const std::string& earlier) { return earlier.starts_with(name); });
    (is_unknown(assignment) ? launch.unknown : launch.words).push_back(assignment);
  }
  launch.words.insert(launch.words.end(), command->words.begin(), command->words.end());
  std::ranges::copy_if(command->words, std::back_inserter(launch.unknown), is_unknown);
  return launch;
}

}  // namespace trimtab::cli
