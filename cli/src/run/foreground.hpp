#pragma once

// A command in the place of this process: in its process group with its terminal, its descriptors, its signals. Linux
// only. Blocking; one at a time, in a process of one thread.

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "ignored_signals.hpp"

namespace trimtab::cli {

// How a command ended: by itself, or by a signal.
struct CommandEnd {
  int exit_code = 0;
  int signal = 0;  // 0 = by itself
};

// Of a command that is there and cannot be executed, as shells say it.
inline constexpr int kNotExecutable = 126;

// Where the program of a command is: itself where it names a path, else what PATH has first. An empty path: none can be
// executed, and `exit_code` is what a shell gives then (127 not there, 126 there but not to be executed).
struct ProgramPlace {
  std::string path;
  int exit_code = 0;
  std::string problem;
};
[[nodiscard]] ProgramPlace find_program(const std::string& word, const std::string& search_path);

// While one lives, signals wait for run_in_foreground(): made before the command is prepared, so that none that comes
// meanwhile ends this process and leaves the command to nobody.
class SignalGate {
 public:
  SignalGate();
  ~SignalGate();
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;
  [[nodiscard]] const sigset_t& waiting() const { return waiting_; }
  [[nodiscard]] const sigset_t& before() const { return before_; }
  // Whether one has come, and waits, that would end this process by itself: Ctrl-C after the command's end is ours.
  [[nodiscard]] static bool asked_to_end();
  // Who ignores the ends of its children is told none, and hands that down.
  [[nodiscard]] bool ignored_children() const { return ignored_children_; }

 private:
  sigset_t waiting_{};
  sigset_t before_{};
  bool ignored_children_ = false;
};

struct ForegroundCommand {
  std::vector<std::string> words;
  std::string path;
  std::vector<std::string> environment;       // all of it
  std::vector<std::string> bare_environment;  // without what was added
  IgnoredSignals ignored;
};

// Starts it, calls `started`, and waits for its end. Where what was added leaves no room for it, or no second process
// can be had, it runs without: `bare` is told why before. What the terminal sends to both is the command's alone; what
// somebody sends to this process is passed on; where the terminal has stopped the command, this process stops, too. An
// error where it cannot be started, and nothing of it has run.
[[nodiscard]] Result<CommandEnd> run_in_foreground(const ForegroundCommand& command, const SignalGate& gate,
                                                   const std::function<void(pid_t)>& started,
                                                   const std::function<void(const std::string&)>& bare);

// Ends this process as the command has ended: by the same signal, without a core of its own, or returns its exit code.
[[nodiscard]] int end_as(const CommandEnd& end);

}  // namespace trimtab::cli
