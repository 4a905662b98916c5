#include "commands/job_programs.hpp"

#include <utility>

#include "commands/describe_run.hpp"

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kDescribeDeadline = std::chrono::minutes(2);

class SystemJobPrograms final : public JobPrograms {
 public:
  SystemJobPrograms(net::EventLoop& loop, Environment environment)
      : loop_(loop), environment_(std::move(environment)) {}

  [[nodiscard]] Result<std::unique_ptr<RunningCommand>> describe(const Job& job, CommandCallbacks callbacks) override {
    return start_describe(loop_, job, environment_, kDescribeDeadline, std::move(callbacks));
  }
  [[nodiscard]] Result<std::unique_ptr<RunningCommand>> benchmark(
      const BenchmarkOrder& order, std::function<void(const std::vector<Cost>&)> measured,
      CommandCallbacks callbacks) override {
    return start_benchmark(loop_, order, environment_, std::move(measured), std::move(callbacks));
  }

 private:
  net::EventLoop& loop_;
  Environment environment_;
};

}  // namespace

std::shared_ptr<JobPrograms> system_job_programs(net::EventLoop& loop, Environment environment) {
  return std::make_shared<SystemJobPrograms>(loop, std::move(environment));
}

}  // namespace trimtab::agent
