#pragma once

// The commands that a job itself supplies, run on this node: a seam, so that tests can stand in for its processes.
// Loop thread only.

#include "net/event_loop.hpp"
#include "ranks/rank_command.hpp"
#include "schema/cost.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

// A command that takes a while: it runs processes and says when it is done.
class RunningCommand {
 public:
  virtual ~RunningCommand() = default;  // ends its processes
};

struct CommandCallbacks {
  std::function<void(const wire::CommandProgress&)> progress;
  std::function<void(wire::CommandDone)> done;  // once, never from within the start; without its id
};

[[nodiscard]] inline wire::CommandDone done_reply(const std::string& output = "") {
  wire::CommandDone reply;
  reply.set_ok(true);
  reply.set_output(output);
  return reply;
}

[[nodiscard]] inline wire::CommandDone failed_reply(const std::string& error) {
  wire::CommandDone reply;
  reply.set_error(error);
  return reply;
}

struct BenchmarkOrder {
  std::uint64_t command = 0;
  Job job;
  std::string requests_json;
  std::vector<std::uint32_t> ranks;  // those of this node
  std::string node;
  std::string rendezvous;
  std::string scratch;  // exists
  Bytes memory_limit = 0;
  Nanoseconds deadline{0};
};

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
