#pragma once

// Starting processes, hearing of their end and telling them apart, as looking after ranks needs it: a seam, so that a
// test can play the processes and their machine. Loop thread only.

#include "processes/child_process.hpp"
#include "processes/process_identity.hpp"
#include "processes/process_watch.hpp"

namespace trimtab::agent {

// Forked, and held at its gate until it is released. Destroyed before that, it ends.
class HeldChild {
 public:
  virtual ~HeldChild() = default;
  [[nodiscard]] virtual pid_t pid() const = 0;
  [[nodiscard]] virtual std::uint64_t start_time() const = 0;
  // As HeldProcess::release().
  [[nodiscard]] virtual Status release() = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;
  [[nodiscard]] virtual Result<std::unique_ptr<HeldChild>> fork(const ProcessRequest& request) = 0;
  // As ProcessWatch::start().
  [[nodiscard]] virtual Result<std::unique_ptr<WatchedProcess>> watch(pid_t pid,
                                                                      std::function<void(const ProcessEnd&)> ended) = 0;
  [[nodiscard]] virtual std::optional<ProcessStat> stat(pid_t pid) const = 0;
  [[nodiscard]] virtual bool belongs_to(pid_t pid, pid_t ancestor) const = 0;

  // Whether that very process still runs.
  [[nodiscard]] bool is_alive(pid_t pid, std::uint64_t start_time) const;
};

// Those of this machine.
[[nodiscard]] std::unique_ptr<Processes> system_processes(net::EventLoop& loop);

}  // namespace trimtab::agent
