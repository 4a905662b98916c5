#include "run/foreground.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr int kNotFound = 127;

// As exec takes them: borrowed, and a null pointer behind.
std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

bool is_directory(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Of the kernel: to the whole process group, from its terminal.
bool is_of_the_terminal(const siginfo_t& info) {
  return info.si_code == SI_KERNEL;
}

bool stops(int signal) {
  return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

// As this process was started. Returns where it cannot be executed: errno says why.
void execute(const char* path, char* const* words, char* const* environment, const SignalGate& gate,
             const IgnoredSignals& ignored) {
  if (!ignored.broken_pipes) std::signal(SIGPIPE, SIG_DFL);
  if (!ignored.large_files) std::signal(SIGXFSZ, SIG_DFL);
  if (gate.ignored_children()) std::signal(SIGCHLD, SIG_IGN);
  sigprocmask(SIG_SETMASK, &gate.before(), nullptr);
  execve(path, words, environment);
}

// In the child, where only what exec needs may be done.
[[noreturn]] void become(const char* path, char* const* words, char* const* environment, const SignalGate& gate,
                         const IgnoredSignals& ignored, int report) {
  execute(path, words, environment, gate, ignored);
  const int failure = errno;
  [[maybe_unused]] const auto written = write(report, &failure, sizeof failure);
  _exit(kNotExecutable);
}

// errno of exec; 0 = it has become the command.
int exec_failure(int report) {
  int failure = 0;
  ssize_t count = 0;
  do {
    count = read(report, &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  return count == sizeof failure ? failure : 0;
}

// The pid, or the errno of what failed.
struct Start {
  pid_t pid = -1;
  int failure = 0;
};

Start start(const std::string& path, std::vector<std::string> words, std::vector<std::string> environment,
            const SignalGate& gate, const IgnoredSignals& ignored) {
  const std::vector<char*> word_pointers = pointers_to(words);
  const std::vector<char*> environment_pointers = pointers_to(environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {-1, errno};
  const Descriptor reading(ends[0]);
  Descriptor writing(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    become(path.c_str(), word_pointers.data(), environment_pointers.data(), gate, ignored, writing.get());
  }
  if (pid < 0) return {-1, errno};
  writing.reset();
  const int failure = exec_failure(reading.get());
  if (failure != 0) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return {pid, failure};
}

// Waits for the command and hands it what comes for this process.
class Waiting {
 public:
  Waiting(pid_t pid, const SignalGate& gate) : pid_(pid), gate_(gate) {}

  CommandEnd end() {
    while (!look()) {
      siginfo_t info{};
      const int signal = sigwaitinfo(&gate_.waiting(), &info);
      if (signal > 0) take(signal, info);
    }
    return end_;
  }

 private:
  // Whether the command has ended.
  bool look() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(pid_, &status, WNOHANG | WUNTRACED)) == pid_) {
      if (WIFSTOPPED(status)) {
        command_stopped_ = stops(WSTOPSIG(status));
        continue;
      }
      end_ = WIFSIGNALED(status) ? CommandEnd{0, WTERMSIG(status)} : CommandEnd{WEXITSTATUS(status), 0};
      return true;
    }
    if (pid < 0 && errno == ECHILD) {
      end_ = {kNotFound, 0};  // somebody else has taken its end
      return true;
    }
    stop_with_it();
    return false;
  }

  void take(int signal, const siginfo_t& info) {
    if (signal == SIGCHLD) return;
    if (stops(signal)) asked_to_stop_ = true;
    if (signal == SIGCONT) command_stopped_ = asked_to_stop_ = false;
    if (!is_of_the_terminal(info)) kill(pid_, signal);
  }

  // Whoever has started us waits for a stop as it would for the command's. A command that takes no notice of the
  // terminal's wish goes on, and so do we. A stop that the command alone was sent is between it and the sender.
  void stop_with_it() {
    if (!command_stopped_ || !asked_to_stop_) return;
    command_stopped_ = asked_to_stop_ = false;
    raise(SIGSTOP);
  }

  pid_t pid_;
  const SignalGate& gate_;
  bool command_stopped_ = false;
  bool asked_to_stop_ = false;
  CommandEnd end_;
};

}  // namespace

ProgramPlace find_program(const std::string& word, const std::string& search_path) {
  std::vector<std::string> places;
  if (word.find('/') != std::string::npos) {
    places.push_back(word);
  } else {
    const std::string path = search_path.empty() ? "/usr/local/bin:/usr/bin:/bin" : search_path;
    for (std::size_t begin = 0; begin <= path.size();) {
      const std::size_t end = std::min(path.find(':', begin), path.size());
      const std::string folder = path.substr(begin, end - begin);
      places.push_back((folder.empty() ? "." : folder) + "/" + word);
      begin = end + 1;
    }
  }
  ProgramPlace found{"", kNotFound, word.find('/') == std::string::npos ? "not found" : std::strerror(ENOENT)};
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0 && !is_directory(place)) return {place, 0, ""};
    if (errno == ENOTDIR && found.exit_code == kNotFound && places.size() == 1) found.problem = std::strerror(ENOTDIR);
    if (access(place.c_str(), F_OK) == 0 && (places.size() == 1 || !is_directory(place))) {
      found = {"", kNotExecutable, std::strerror(is_directory(place) ? EISDIR : EACCES)};
    }
  }
  return found;
}

SignalGate::SignalGate() {
  sigfillset(&waiting_);
  // Two that no process can hold back, and one that this process's own writes may raise. A fault of this program ends
  // it all the same: the kernel delivers what a fault raises though it is held back.
  for (const int signal : {SIGKILL, SIGSTOP, SIGPIPE}) sigdelset(&waiting_, signal);
  sigprocmask(SIG_BLOCK, &waiting_, &before_);
  ignored_children_ = std::signal(SIGCHLD, SIG_DFL) == SIG_IGN;
}

SignalGate::~SignalGate() {
  if (ignored_children_) std::signal(SIGCHLD, SIG_IGN);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool SignalGate::asked_to_end() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
         sigismember(&pending, SIGQUIT) == 1 || sigismember(&pending, SIGHUP) == 1;
}

Result<CommandEnd> run_in_foreground(const ForegroundCommand& command, const SignalGate& gate,
                                     const std::function<void(pid_t)>& started,
                                     const std::function<void(const std::string&)>& bare) {
  Start begun = start(command.path, command.words, command.environment, gate, command.ignored);
  const bool is_bare = command.environment == command.bare_environment;
  if (begun.failure == E2BIG && !is_bare) {
    bare(std::strerror(E2BIG));
    begun = start(command.path, command.words, command.bare_environment, gate, command.ignored);
  }
  if (begun.failure == ENOEXEC) {
    // A script without "#!" is the shell's, as in a shell.
    std::vector<std::string> words{"sh", command.path};
    words.insert(words.end(), command.words.begin() + 1, command.words.end());
    begun = start("/bin/sh", words, command.environment, gate, command.ignored);
  }
  if (begun.pid < 0) {
    // No descriptor or no process is left for a child: this process becomes the command.
    bare(std::strerror(begun.failure));
    std::vector<std::string> words = command.words;
    std::vector<std::string> environment = command.bare_environment;
    execute(command.path.c_str(), pointers_to(words).data(), pointers_to(environment).data(), gate, command.ignored);
    begun.failure = errno;
  }
  if (begun.pid < 0 || begun.failure != 0) {
    return unavailable(command.words.front() + ": " + std::strerror(begun.failure));
  }
  started(begun.pid);
  return Waiting(begun.pid, gate).end();
}

int end_as(const CommandEnd& end) {
  if (end.signal == 0) return end.exit_code;
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // the core that people look for is the command's
  std::signal(end.signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, end.signal);
  raise(end.signal);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  return 128 + end.signal;  // where this process is one that signals do not end: the first of a container
}

}  // namespace trimtab::cli
