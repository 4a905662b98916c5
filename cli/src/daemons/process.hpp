#pragma once

// Background processes: starting one, asking whether it is still the same one, ending it. Linux only (/proc).

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"

namespace trimtab::cli {

// A pid alone may be reused; with its start time (clock ticks since boot) it names one process of this boot.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_time = 0;
  bool operator==(const ProcessIdentity&) const = default;
};

struct ProcessStat {
  std::string name;  // of its program's file, the first 15 bytes
  char state = '?';
  std::uint64_t start_time = 0;
};
// The text of /proc/PID/stat; nothing when it is not one. Pure.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

// Starts `arguments` (the first is the program's path) in a session of its own, without terminal, its output appended
// to `log_path`. The process is no child of ours: it outlives us and leaves no zombie to us.
[[nodiscard]] Result<ProcessIdentity> start_in_background(const std::vector<std::string>& arguments,
                                                          const std::string& log_path);

[[nodiscard]] ProcessIdentity this_process();
// Of a process that runs now.
[[nodiscard]] ProcessIdentity process_identity(pid_t pid);
// Runs and not a zombie.
[[nodiscard]] bool is_alive(const ProcessIdentity& process);
// Runs, is this user's or root's, and its program's file has this name. What a file says of a process may be somebody
// else's word.
[[nodiscard]] bool runs_program(const ProcessIdentity& process, const std::string& program);
// Sends the signal if it is still that process.
void send_signal(const ProcessIdentity& process, int signal);

struct CommandOutcome {
  int exit_code = -1;  // -1 = ended by a signal, or never started
  bool timed_out = false;
  std::string output;  // both streams, at most 64 KiB
};
// Runs a command (found in PATH) to its end and gives back what it said; ends it when `patience` is over.
[[nodiscard]] CommandOutcome run_command(const std::vector<std::string>& arguments, const Clock& clock,
                                         Nanoseconds patience);

// The directory of this program's file.
[[nodiscard]] std::string program_directory();

}  // namespace trimtab::cli
