#include "program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

extern char** environ;

namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Outcome trimtab_program(const std::vector<std::string>& arguments,
                        const std::map<std::string, std::string>& environment) {
  const Scratch scratch;
  std::vector<std::string> command{TRIMTAB_BIN "/trimtab"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, scratch.path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, scratch.path("err").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = 0;
  REQUIRE(posix_spawn(&pid, command.front().c_str(), &actions, nullptr, pointers_to(command).data(),
                      pointers_to(variables).data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(scratch.path("out")),
          content_of(scratch.path("err"))};
}

Scratch::Scratch() {
  char name[] = "/tmp/trimtab-test-XXXXXX";
  REQUIRE(mkdtemp(name) != nullptr);
  directory_ = name;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string Scratch::file(const std::string& name, const std::string& content) const {
  std::ofstream(path(name)) << content;
  return path(name);
}

std::string content_of(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}
