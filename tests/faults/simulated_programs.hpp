#pragma once

// The commands that jobs supply, without processes: done after a while, unless they are ended before that.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "commands/job_programs.hpp"
#include "virtual_time.hpp"

namespace trimtab::test {

class SimulatedPrograms final : public agent::JobPrograms {
 public:
  struct Agent {
    std::function<void(const std::function<void()>&)> act;    // as the agent, unless this one is gone by then
    std::function<std::string(const std::string& job)> runs;  // what its description prints
    std::function<void(const std::string& job)> ended;        // and has been taken
    std::function<std::vector<Cost>()> measures;              // what a benchmark does
  };
  SimulatedPrograms(VirtualTime& time, Random& random, Agent agent)
      : time_(time), random_(random), agent_(std::move(agent)) {}

  [[nodiscard]] Result<std::unique_ptr<agent::RunningCommand>> describe(const Job& job,
                                                                        agent::CommandCallbacks callbacks) override;
  [[nodiscard]] Result<std::unique_ptr<agent::RunningCommand>> benchmark(
      const agent::BenchmarkOrder& order, std::function<void(const std::vector<Cost>&)> measured,
      agent::CommandCallbacks callbacks) override;

 private:
  [[nodiscard]] std::unique_ptr<agent::RunningCommand> run(std::function<void()> end);

  VirtualTime& time_;
  Random& random_;
  Agent agent_;
};

}  // namespace trimtab::test
