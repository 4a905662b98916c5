#pragma once

// The commands that a job itself supplies, run on this node: a seam, so that tests can stand in for its processes.
// Loop thread only.

#include <functional>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "commands/benchmark_run.hpp"
#include "commands/running_command.hpp"
#include "net/event_loop.hpp"
#include "ranks/rank_command.hpp"

namespace trimtab::agent {

class JobPrograms {
 public:
  virtual ~JobPrograms() = default;
  // What is given back ends it when it is destroyed; nothing is called after that.
  [[nodiscard]] virtual Result<std::unique_ptr<RunningCommand>> describe(const Job& job,
                                                                         CommandCallbacks callbacks) = 0;
  // `measured` is given the costs before `callbacks.done` is called.
  [[nodiscard]] virtual Result<std::unique_ptr<RunningCommand>> benchmark(
      const BenchmarkOrder& order, std::function<void(const std::vector<Cost>&)> measured,
      CommandCallbacks callbacks) = 0;
};

// Processes of this machine, in the agent's environment.
[[nodiscard]] std::shared_ptr<JobPrograms> system_job_programs(net::EventLoop& loop, Environment environment);

}  // namespace trimtab::agent
