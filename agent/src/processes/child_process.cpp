#include "processes/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "net/daemon.hpp"
#include "processes/process_identity.hpp"

namespace trimtab::agent {

namespace {

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

// Of the process, as the mask itself is; nothing: children inherit what is there.
std::optional<mode_t> mask_of_children;

// Likewise.
std::optional<rlimit> descriptors_of_children;

constexpr const char* kScorePath = "/proc/self/oom_score_adj";
constexpr std::string_view kHighestScore = "1000";

// Likewise, as the kernel writes it.
std::optional<std::string> score_of_children;

// Async-signal-safe.
bool write_score(std::string_view score) {
  const Descriptor file(::open(kScorePath, O_WRONLY | O_CLOEXEC));
  return file && std::cmp_equal(::write(file.get(), score.data(), score.size()), score.size());
}

std::optional<std::string> read_score() {
  const Descriptor file(::open(kScorePath, O_RDONLY | O_CLOEXEC));
  char text[16];
  const ssize_t count = file ? ::read(file.get(), text, sizeof text) : -1;
  if (count <= 0) return std::nullopt;
  return std::string(text, static_cast<std::size_t>(count));
}

enum class Stage : int { kDirectory = 1, kDescriptors, kExecute };
struct ChildFailure {
  int stage;
  int code;
};

// Everything the child needs, made before the fork: between fork and exec only async-signal-safe calls are allowed.
struct ChildPlan {
  std::string program;
  std::string directory;
  std::vector<std::string> environment_texts;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int output = -1;
  int error = -1;
  int gate = -1;
  int failure = -1;
  std::optional<mode_t> file_mask;
  std::optional<rlimit> descriptors;
  std::string_view score;  // empty: as it is
  bool dies_with_agent = false;
  int kept = -1;
};

ChildPlan plan_child(const ProcessRequest& request, std::string program) {
  ChildPlan plan;
  plan.program = std::move(program);
  plan.directory = request.working_directory;
  plan.output = request.output;
  plan.error = request.error;
  plan.file_mask = mask_of_children;
  plan.descriptors = descriptors_of_children;
  if (score_of_children) plan.score = *score_of_children;
  plan.dies_with_agent = request.dies_with_agent;
  plan.kept = request.kept;
  for (const auto& argument : request.arguments) plan.arguments.push_back(const_cast<char*>(argument.c_str()));
  plan.arguments.push_back(nullptr);
  for (const auto& [name, value] : request.environment) plan.environment_texts.push_back(name + "=" + value);
  for (auto& text : plan.environment_texts) plan.environment.push_back(text.data());
  plan.environment.push_back(nullptr);
  return plan;
}

[[noreturn]] void fail_child(const ChildPlan& plan, Stage stage) {
  const ChildFailure failure{static_cast<int>(stage), errno};
  const auto written = ::write(plan.failure, &failure, sizeof failure);
  ::_exit(written == static_cast<ssize_t>(sizeof failure) ? 127 : 126);
}

void set_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool wait_at_gate(int gate) {
  char byte = 0;
  ssize_t count = 0;
  do {
    count = ::read(gate, &byte, 1);
  } while (count < 0 && errno == EINTR);
  return count == 1;
}

// At once, not by exec: a child held at its gate must not keep the locks and ports of an agent that was killed, or the
// next agent would find them taken. Old kernels lack the call: there they stay until the exec.
void close_all_but(std::array<int, 3> kept) {
  std::ranges::sort(kept);
  unsigned next = 3;
  for (const int one : kept) {
    if (one < 3) continue;
    const auto number = static_cast<unsigned>(one);
    if (number > next) ::close_range(next, number - 1, 0);
    next = number + 1;
  }
  ::close_range(next, ~0U, 0);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
  ::setpgid(0, 0);
  if (plan.dies_with_agent) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_signals();
  if (plan.file_mask) ::umask(*plan.file_mask);
  if (!plan.score.empty()) (void)write_score(plan.score);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int output = plan.output >= 0 ? plan.output : null;
  const int error = plan.error >= 0 ? plan.error : null;
  if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(error, 2) < 0) {
    fail_child(plan, Stage::kDescriptors);
  }
  if (plan.kept >= 0) ::fcntl(plan.kept, F_SETFD, 0);
  close_all_but({plan.gate, plan.failure, plan.kept});
  // Not earlier: nothing can be opened beyond it.
  if (plan.descriptors) ::setrlimit(RLIMIT_NOFILE, &*plan.descriptors);
  if (::chdir(plan.directory.c_str()) != 0) fail_child(plan, Stage::kDirectory);
  if (!wait_at_gate(plan.gate)) ::_exit(0);
  ::execve(plan.program.c_str(), plan.arguments.data(), plan.environment.data());
  fail_child(plan, Stage::kExecute);
}

std::string path_of(const std::map<std::string, std::string>& environment) {
  const auto found = environment.find("PATH");
  return found == environment.end() || found->second.empty() ? kDefaultPath : found->second;
}

// Descriptors 0 to 2 of the child are overwritten by dup2; ours must not be among them.
bool above_standard(std::array<int, 2>& ends) {
  for (int& end : ends) {
    if (end > 2) continue;
    const int moved = ::fcntl(end, F_DUPFD_CLOEXEC, 3);
    if (moved < 0) return false;
    ::close(std::exchange(end, moved));
  }
  return true;
}

}  // namespace

Result<std::array<Descriptor, 2>> make_channel(Channel kind) {
  std::array<int, 2> ends{};
  const int made = kind == Channel::kPipe ? ::pipe2(ends.data(), O_CLOEXEC)
                                          : ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
  if (made != 0 || !above_standard(ends)) {
    return unavailable(std::string("couldn't make a channel to a child process: ") + std::strerror(errno));
  }
  return std::array{Descriptor(ends[0]), Descriptor(ends[1])};
}

Result<HeldProcess> HeldProcess::fork(const ProcessRequest& request) {
  if (request.arguments.empty()) return bad_input("a command needs at least the name of a program");
  TRIMTAB_TRY(auto program,
              find_program(request.arguments.front(), path_of(request.environment), request.working_directory));
  TRIMTAB_TRY(auto gate, make_channel(Channel::kSocket));  // A dead child raises no signal.
  TRIMTAB_TRY(auto failure, make_channel(Channel::kPipe));
  HeldProcess held;
  held.gate_ = std::move(gate[1]);
  held.failure_ = std::move(failure[0]);
  held.program_ = request.arguments.front();
  ChildPlan plan = plan_child(request, std::move(program));
  plan.gate = gate[0].get();
  plan.failure = failure[1].get();
  held.pid_ = ::fork();
  if (held.pid_ == 0) {
    held.gate_.close();  // else the child would keep its own gate open
    run_child(plan);
  }
  if (held.pid_ < 0) return unavailable("couldn't start '" + held.program_ + "': fork: " + std::strerror(errno));
  ::setpgid(held.pid_, held.pid_);  // Here as well: whoever comes first.
  if (const auto stat = process_stat(held.pid_)) held.start_time_ = stat->start_time;
  return held;
}

HeldProcess::~HeldProcess() {
  if (!gate_) return;
  gate_.close();
  if (pid_ <= 0) return;
  // Closing alone may not end it: where close_range is missing, a held sibling has inherited our end of its gate.
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

Status HeldProcess::release() {
  const char byte = 1;
  const bool opened = ::send(gate_.get(), &byte, 1, MSG_NOSIGNAL) == 1;
  gate_.close();
  // A child that failed before it came to the gate has said why.
  Status failed = failure_of_child();
  if (failed.ok() && !opened) failed = unavailable("'" + program_ + "' ended before it began");
  if (!failed.ok()) ::waitpid(pid_, nullptr, 0);
  return failed;
}

Status HeldProcess::failure_of_child() const {
  ChildFailure failure{};
  ssize_t count = 0;
  do {
    count = ::read(failure_.get(), &failure, sizeof failure);  // Ends with the exec, which closes the other end.
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof failure)) return {};
  const std::string reason = std::strerror(failure.code);
  switch (static_cast<Stage>(failure.stage)) {
    case Stage::kDirectory:
      return unavailable("couldn't run '" + program_ + "': its working directory: " + reason);
    case Stage::kDescriptors:
      return unavailable("couldn't run '" + program_ + "': its standard streams: " + reason);
    case Stage::kExecute:
      break;
  }
  return unavailable("couldn't run '" + program_ + "': " + reason);
}

void keep_own_files_private() {
  const mode_t before = ::umask(S_IRWXG | S_IRWXO);
  if (!mask_of_children) mask_of_children = before;
}

void allow_all_descriptors() {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  if (!descriptors_of_children) descriptors_of_children = before;
  net::allow_descriptors(net::kAllDescriptors);
}

bool end_before_ranks() {
  if (score_of_children) return true;
  auto before = read_score();
  if (!before || !write_score(kHighestScore)) return false;
  score_of_children = std::move(before);
  return true;
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

namespace {

bool is_program(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<std::string> find_program(const std::string& name, const std::string& path,
                                 const std::string& working_directory) {
  const std::filesystem::path directory(working_directory);
  if (name.find('/') != std::string::npos) {
    const std::string file = (directory / name).string();
    if (is_program(file)) return file;
    return unavailable("couldn't run '" + name + "': there is no executable file " + file);
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const std::string file = (directory / path.substr(begin, end - begin) / name).string();
    if (!name.empty() && is_program(file)) return file;
    begin = end + 1;
  }
  return unavailable("couldn't run '" + name + "': there is no such program in PATH (" + path +
                     "); the working directory is " + working_directory);
}

}  // namespace trimtab::agent
