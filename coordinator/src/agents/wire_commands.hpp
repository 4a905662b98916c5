#pragma once

// The tuning machine's actions as wire messages. Pure.

#include <cstdint>
#include <string>

#include "tuning/action.hpp"

namespace trimtab::wire {
class ToAgent;
}

namespace trimtab::coordinator {

// The job that a command speaks of, and where its ranks meet.
struct CommandContext {
  std::uint64_t id = 0;
  std::string job_name;
  std::string job_json;
  std::string rendezvous;  // of a launch or a benchmark
  std::string nccl_table;  // of a launch; empty = NCCL chooses by itself
};

[[nodiscard]] wire::ToAgent command(const DescribeOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const BenchmarkOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const LaunchOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const KillOn& action, const CommandContext& context);

[[nodiscard]] wire::ToAgent message(const ProposePlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const CommitPlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const CancelPlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const StopRanks& action, const std::string& job_name);

}  // namespace trimtab::coordinator
