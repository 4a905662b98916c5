#include "doctor/job_commands.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "files.hpp"
#include "init/command_reading.hpp"
#include "schema/settings/job_programs.hpp"

namespace trimtab::cli {

namespace {

namespace fs = std::filesystem;

bool has_placeholder(const std::string& word) {
  return word.find('{') != std::string::npos;
}

std::string path_of(const Job& job) {
  if (const auto found = job.environment.find("PATH"); found != job.environment.end()) return found->second;
  const char* own = std::getenv("PATH");
  return own == nullptr ? "" : own;
}

bool can_be_run(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

// As execvp() looks for it.
bool is_program(const Job& job, const std::string& name) {
  const fs::path base = job.working_directory;
  if (name.find('/') != std::string::npos) return can_be_run(base / name);
  const std::string path = path_of(job);
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    if (can_be_run(base / path.substr(begin, end - begin) / name)) return true;
    begin = end + 1;
  }
  return false;
}

Check missing(const std::string& what, const Job& job) {
  return {"train", Health::kFail, what + ", looked for from " + job.working_directory,
          "correct commands.train in job.toml, or its working_directory"};
}

}  // namespace

Check check_train(const Job& job) {
  if (job.train.empty()) return {"train", Health::kOk, "no command", ""};
  if (const Status fits = check_programs(job); !fits.ok()) {
    return {"train", Health::kFail, fits.error().message, "shorten it in job.toml: it is refused as it is"};
  }
  const CommandReading reading = read_command(job.train);
  for (const std::string& program : {job.train.front(), reading.program}) {
    const bool script = program == reading.script && program != job.train.front();  // an interpreter reads it
    if (program.empty() || script || has_placeholder(program) || is_program(job, program)) continue;
    const bool there = is_there((fs::path(job.working_directory) / program).string());
    return missing("the program " + program + (there ? " may not be executed" : " is not found"), job);
  }
  const std::string& script = reading.script;
  if (!script.empty() && !has_placeholder(script) && !is_there((fs::path(job.working_directory) / script).string())) {
    return missing("the script " + script + " is not found", job);
  }
  return {"train", Health::kOk, script.empty() ? job.train.front() : script, ""};
}

Interpreter interpreter_of(const Job& job) {
  for (const std::vector<std::string>* command : {&job.train, &job.benchmark, &job.describe}) {
    const std::string interpreter = read_command(*command).interpreter;
    if (!interpreter.empty() && !has_placeholder(interpreter)) return {interpreter, true};
  }
  return {};
}

std::vector<std::string> as_rank(const Job& job, const std::vector<std::string>& command) {
  std::vector<std::string> words{"env"};
  if (!job.working_directory.empty()) words.insert(words.end(), {"-C", job.working_directory});
  for (const auto& [name, value] : job.environment) words.push_back(name + "=" + value);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

}  // namespace trimtab::cli
