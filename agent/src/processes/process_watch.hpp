#pragma once

// The end of one process, ours or one that an earlier agent started, noticed through a pidfd on the loop. Loop thread
// only.

#include <sys/types.h>
#include <csignal>

#include <cstdint>
#include <vector>

#include "net/event_loop.hpp"

#include "base/descriptor.hpp"

namespace trimtab::agent {

struct ProcessEnd {
  bool known = false;  // false: it was not our child, nobody tells us how it ended
  std::int32_t exit_code = 0;
  std::int32_t signal = 0;

  [[nodiscard]] bool clean() const { return known && exit_code == 0 && signal == 0; }
};
// "exited with code 3", "was ended by signal 9 (Killed)".
[[nodiscard]] std::string describe(const ProcessEnd& end);

// A process whose end is told, once; destroyed, nothing is told any more.
class WatchedProcess {
 public:
  virtual ~WatchedProcess() = default;
  // To the whole group that the process leads. Nothing happens when it is gone.
  virtual void signal_group(int number) const = 0;
  // To one process that belongs to it.
  virtual void signal_one(pid_t pid, int number) const = 0;
  // SIGKILL, which nobody passes on: also to what the process has started in sessions of their own.
  virtual void kill_all() = 0;
  // Also a clean end kills the rest of the group.
  virtual void end_group_with_it() = 0;
  // What it leaves is its user's: nothing is killed, however it ends.
  virtual void leave_group() = 0;
};

class ProcessWatch final : public WatchedProcess {
 public:
  // `ended` is called once, on the loop; it may destroy the watch. What is left of the process's group is killed first
  // unless it ended cleanly or leave_group() was called: a rank that crashed leaves no data loaders behind, nor one
  // whose container's starter was ended its own process. What was killed is awaited, for its memory and its device are
  // free only then; not for ever, since a driver or a file server can hold it.
  [[nodiscard]] static Result<std::unique_ptr<ProcessWatch>> start(net::EventLoop& loop, pid_t pid,
                                                                   std::function<void(const ProcessEnd&)> ended);
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  void signal_group(int number) const override { ::kill(-pid_, number); }
  void signal_one(pid_t pid, int number) const override { ::kill(pid, number); }
  void kill_all() override;
  void end_group_with_it() override { end_group_ = true; }
  void leave_group() override { leave_group_ = true; }
  // The signal that has ended it; 0 while it runs, or where it has exited. Also before `ended` is told, which waits for
  // its group.
  [[nodiscard]] std::int32_t ended_by() const;

 private:
  struct Member {
    Descriptor descriptor;
    net::EventLoop::Watch watch;
  };

  ProcessWatch(net::EventLoop& loop, pid_t pid, int descriptor, std::function<void(const ProcessEnd&)> ended)
      : loop_(loop), pid_(pid), descriptor_(descriptor), ended_(std::move(ended)) {}
  void readable();
  void await_members();
  void member_ended(int descriptor);
  void finish();

  net::EventLoop& loop_;
  pid_t pid_;
  Descriptor descriptor_;
  std::function<void(const ProcessEnd&)> ended_;
  bool end_group_ = false;
  bool leave_group_ = false;
  net::EventLoop::Watch watch_;
  std::vector<pid_t> apart_;  // killed with it, of other groups
  // From the process's end on.
  ProcessEnd end_;
  std::vector<Member> members_;
  net::EventLoop::Timer patience_;
};

}  // namespace trimtab::agent
