#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "daemons/process.hpp"

extern char** environ;

namespace trimtab::cli {

namespace {

constexpr std::size_t kMostOutput = 64U << 10;

// posix_spawn with the child's output on `output` and nothing to read.
int spawn(const std::vector<std::string>& arguments, int output, pid_t& pid) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  const int failure = posix_spawnp(&pid, pointers.front(), &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// Reads until the other end closes; false when the time is over before.
bool read_all(int descriptor, const Clock& clock, Nanoseconds end, std::string& text) {
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock.monotonic()).count();
    if (left <= 0) return false;
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count <= 0) return true;
    if (text.size() < kMostOutput) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

CommandOutcome run_command(const std::vector<std::string>& arguments, const Clock& clock, Nanoseconds patience) {
  CommandOutcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  pid_t pid = 0;
  const int failure = spawn(arguments, ends[1], pid);
  close(ends[1]);
  if (failure != 0) {
    close(ends[0]);
    outcome.output = std::strerror(failure);
    return outcome;
  }
  outcome.timed_out = !read_all(ends[0], clock, clock.monotonic() + patience, outcome.output);
  close(ends[0]);
  if (outcome.timed_out) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace trimtab::cli
