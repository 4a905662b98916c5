#pragma once

// Telling processes apart: a pid is used again, a pid with its start time is not. From /proc.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trimtab::agent {

struct ProcessStat {
  char state = '?';  // 'Z' and 'X' have ended
  pid_t parent = 0;
  pid_t group = 0;
  std::uint64_t start_time = 0;  // clock ticks after boot

  [[nodiscard]] bool ended() const { return state == 'Z' || state == 'X'; }
  // By a signal, or by who traces it: nothing of it runs until that lets it.
  [[nodiscard]] bool stopped() const { return state == 'T' || state == 't'; }
};

// The text of /proc/PID/stat; a process may have any name, also one with parentheses in it.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);
// Nothing when there is no such process.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t pid);

// For messages. 0 is what the kernel says of a process in a PID namespace that is neither ours nor below it.
[[nodiscard]] std::string process_name(pid_t pid);

// Whether that very process still runs.
[[nodiscard]] bool is_alive(pid_t pid, std::uint64_t start_time);

// Whether `pid` is the process `ancestor`, a descendant of it, or in the group that it leads.
[[nodiscard]] bool belongs_to(pid_t pid, pid_t ancestor);

// The descendants of a process that are not in the group that it leads: what it started in sessions of their own, as
// PyTorch's torchrun does. Reads all of /proc.
[[nodiscard]] std::vector<pid_t> descendants_apart(pid_t leader);

// The processes of a group but for the one that leads it, in no order, also such as have ended and are not reaped.
// Reads all of /proc.
[[nodiscard]] std::vector<pid_t> group_members(pid_t leader);

}  // namespace trimtab::agent
