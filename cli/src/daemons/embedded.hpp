#pragma once

// The embedded default: a coordinator and agents on this machine as background daemons, their state under one
// directory. Blocking; polls with deadlines.

#include "base/units.hpp"
#include "daemons/up_state.hpp"
#include "jobs/coordinator_client.hpp"

namespace trimtab::cli {

struct UpOptions {
  std::string state;          // directory, absolute
  std::string programs;       // where trimtab-coordinator and trimtab-agent are
  std::uint16_t port = 7420;  // 0 = any free one
  std::uint32_t agents = 1;
  std::uint32_t devices = 1;  // per agent
  Bytes memory = 0;           // per device; 0 = this machine's, shared by all devices
  Nanoseconds deadline = std::chrono::seconds(30);
  bool owned = false;  // this process means to bring it down at its end
};

struct UpOutcome {
  UpState state;
  bool was_up = false;                 // nothing was started, but for:
  std::vector<std::string> restarted;  // what had died beside others that live, in words
  std::vector<std::string> left_over;  // processes of an `up` that had crashed, ended first
};

// Returns when every agent is a member. What is up already is taken as it is, and what has died of it is started again
// as it was, so that a job under a killed daemon goes on: `up` makes it its own, so that it stays;
// an owned use fails while another process owns it, as that one would pull it away. On failure everything that was
// started is ended again, and the error has the end of the guilty log. Two at the same time on one state directory: the
// second waits for the first.
[[nodiscard]] Result<UpOutcome> bring_up(const UpOptions& options, const Clock& clock);

// bring_down() by the owner alone: nothing happens where somebody else has taken it over by `up`.
[[nodiscard]] Status release(const std::string& state_directory, const Clock& clock);

// Nobody owns them any more: they stay up until bring_down(). Nothing happens where somebody else owns them.
[[nodiscard]] Status disown(const std::string& state_directory);

struct DownOutcome {
  std::vector<std::string> jobs;     // that were ended first, in words; whoever hands one in again begins it anew
  std::vector<std::string> stopped;  // processes, in words; empty = nothing was up
};

// The jobs first (ended_jobs.hpp). Then SIGTERM, and SIGKILL to who does not end in time; the agents first, so that
// they end their ranks.
[[nodiscard]] Result<DownOutcome> bring_down(const std::string& state_directory, const Clock& clock);

// What is up there: the file exists and its coordinator is alive.
[[nodiscard]] std::optional<UpState> running_state(const std::string& state_directory);

// The embedded coordinator, with its token.
[[nodiscard]] Address embedded_address(const std::string& state_directory, std::uint16_t port);
// In the state directory, or, where that is too long for a Unix socket's address, in /tmp.
[[nodiscard]] std::string agent_socket(const std::string& state_directory, std::uint32_t index);

}  // namespace trimtab::cli
