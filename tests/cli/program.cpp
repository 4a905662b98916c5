#include "program.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
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

Running::Running(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{TRIMTAB_BIN "/trimtab"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, scratch_.path("out").c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, scratch_.path("err").c_str(), O_WRONLY | O_CREAT, 0600);
  const int failure =
      posix_spawn(&pid_, command.front().c_str(), &actions, nullptr, pointers_to(command).data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(failure == 0);
}

Running::~Running() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Running::interrupt() {
  kill(pid_, SIGINT);
}

std::string Running::said() const {
  return content_of(scratch_.path("err"));
}

Outcome Running::wait() {
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  pid_ = 0;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, content_of(scratch_.path("out")), said()};
}

Outcome trimtab_program(const std::vector<std::string>& arguments) {
  return Running(arguments).wait();
}

std::string content_of(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}
