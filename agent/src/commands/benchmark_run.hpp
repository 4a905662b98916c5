#pragma once

// Runs a job's benchmark command, once for each asked rank, all at once, and folds what they print.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "commands/running_command.hpp"
#include "net/event_loop.hpp"
#include "ranks/rank_command.hpp"
#include "schema/cost.hpp"

namespace trimtab::agent {

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

// `measured` is given the costs before `done` is called.
[[nodiscard]] Result<std::unique_ptr<RunningCommand>> start_benchmark(
    net::EventLoop& loop, const BenchmarkOrder& order, const Environment& base,
    std::function<void(const std::vector<Cost>&)> measured, CommandCallbacks callbacks);

}  // namespace trimtab::agent
