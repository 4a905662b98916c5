#include "daemons/process.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "files.hpp"

extern char** environ;

namespace trimtab::cli {

namespace {

std::optional<ProcessStat> stat_of(pid_t pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  return parse_process_stat(text);
}

// As exec takes them: borrowed, and a null pointer behind.
std::vector<char*> argument_pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What the processes in between tell the one that started them.
struct StartReport {
  pid_t pid = 0;
  int failure = 0;  // errno of exec; 0 = none
};

[[noreturn]] void become_daemon(const std::vector<char*>& arguments, int log, int report) {
  // The daemon's own signal dispositions start afresh; ours ignores SIGPIPE.
  std::signal(SIGPIPE, SIG_DFL);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Whatever else was open here, such as a pipe whose reader waits for its end, is not a daemon's to hold.
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv(arguments.front(), arguments.data());
  const StartReport failed{getpid(), errno};
  [[maybe_unused]] const auto written = write(report, &failed, sizeof failed);
  _exit(127);
}

[[noreturn]] void fork_again(const std::vector<char*>& arguments, int log, int report) {
  setsid();
  const pid_t daemon = fork();
  if (daemon == 0) become_daemon(arguments, log, report);
  const StartReport started{daemon, daemon < 0 ? errno : 0};
  [[maybe_unused]] const auto written = write(report, &started, sizeof started);
  _exit(0);
}

// Reads until the pipe closes, which a successful exec does: the pid, and the failure if there was one.
StartReport read_report(int descriptor) {
  StartReport result;
  StartReport one;
  while (true) {
    const ssize_t count = read(descriptor, &one, sizeof one);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof one) return result;
    result.pid = one.pid;
    result.failure = one.failure != 0 ? one.failure : result.failure;
  }
}

constexpr std::size_t kMostOutput = 64U << 10;

// posix_spawn with the child's output on `output` and nothing to read.
int spawn(const std::vector<std::string>& arguments, int output, pid_t& pid) {
  const std::vector<char*> pointers = argument_pointers(arguments);
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

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The second field is the program's name in parentheses, and may hold anything, parentheses and spaces too.
  const std::size_t name = text.find('(');
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || name >= name_end || name_end + 2 >= text.size()) return std::nullopt;
  ProcessStat stat;
  stat.name = text.substr(name + 1, name_end - name - 1);
  text.remove_prefix(name_end + 2);
  stat.state = text.front();
  for (int field = 3; field < 22; ++field) {
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space + 1);
  }
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), stat.start_time);
  return failure == std::errc{} ? std::optional(stat) : std::nullopt;
}

Result<ProcessIdentity> start_in_background(const std::vector<std::string>& arguments, const std::string& log_path) {
  const std::vector<char*> pointers = argument_pointers(arguments);
  auto log = open_own_file(log_path, O_WRONLY | O_CREAT | O_APPEND);
  if (!log.ok()) return wrap("cannot write the log", log.error());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return unavailable(std::string("cannot make a pipe: ") + std::strerror(errno));
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t between = fork();
  if (between == 0) fork_again(pointers, log->get(), writing.get());
  const int fork_failure = errno;
  writing.reset();
  if (between < 0) return unavailable(std::string("cannot start a process: ") + std::strerror(fork_failure));
  const StartReport report = read_report(reading.get());
  while (waitpid(between, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (report.failure != 0 || report.pid <= 0) {
    return unavailable("cannot start " + arguments.front() + ": " + std::strerror(report.failure));
  }
  // Already gone: the caller, who looks at it next, finds it dead.
  return ProcessIdentity{report.pid, stat_of(report.pid).value_or(ProcessStat{}).start_time};
}

ProcessIdentity this_process() {
  return process_identity(getpid());
}

ProcessIdentity process_identity(pid_t pid) {
  return {pid, stat_of(pid).value_or(ProcessStat{}).start_time};
}

namespace {

// Nothing where this process lacks the means to look: that is no sign of the other one's end.
std::optional<bool> lives(const ProcessIdentity& process) {
  errno = 0;
  const auto stat = stat_of(process.pid);
  if (!stat && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) return std::nullopt;
  return stat && stat->start_time == process.start_time && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace

bool is_alive(const ProcessIdentity& process) {
  if (const auto known = lives(process)) return *known;
  return process.pid > 0 && (kill(process.pid, 0) == 0 || errno == EPERM);
}

bool runs_program(const ProcessIdentity& process, const std::string& program) {
  constexpr std::size_t kLongestName = 15;
  struct stat owner {};
  const bool own = stat(("/proc/" + std::to_string(process.pid)).c_str(), &owner) == 0 &&
                   (owner.st_uid == 0 || owner.st_uid == geteuid());
  return own && is_alive(process) &&
         stat_of(process.pid).value_or(ProcessStat{}).name == program.substr(0, kLongestName);
}

void send_signal(const ProcessIdentity& process, int signal) {
  if (process.pid > 1 && lives(process).value_or(false)) kill(process.pid, signal);
}

CommandOutcome run_command(const std::vector<std::string>& arguments, const Clock& clock, Nanoseconds patience) {
  CommandOutcome outcome;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return outcome;
  Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  pid_t pid = 0;
  const int failure = spawn(arguments, writing.get(), pid);
  writing.reset();
  if (failure != 0) {
    outcome.output = std::strerror(failure);
    return outcome;
  }
  outcome.timed_out = !read_all(reading.get(), clock, clock.monotonic() + patience, outcome.output);
  reading.reset();
  if (outcome.timed_out) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

std::string program_directory() {
  std::error_code failure;
  return std::filesystem::read_symlink("/proc/self/exe", failure).parent_path().string();
}

}  // namespace trimtab::cli
