#pragma once

// The tuning machine's actions as wire messages, and in words for the audit log. Pure.
//
// Where a launch's ranks meet: those on one node have a file of their agent's, which is asked for by a mere name; those
// on several a TCP address on the node of rank 0, for nodes need not share a disk. Each name has a port of its own out
// of a range, so that neither an earlier launch nor, mostly, another job is in the way.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agents/membership.hpp"
#include "agents/wire_messages.hpp"
#include "coordinator/settings.hpp"
#include "tuning/action.hpp"

namespace trimtab::coordinator {

// The job that a command speaks of, and where its ranks meet.
struct CommandContext {
  std::uint64_t id = 0;
  std::string job_name;
  std::string job_json;
  std::string rendezvous;  // of a launch or a benchmark
  std::string nccl_table;  // of a launch; empty = NCCL chooses by itself
};

// What an action does to the job or its machines, in words. Empty for what only the coordinator itself sees.
[[nodiscard]] std::string audited(const Action& action);

[[nodiscard]] wire::ToAgent command(const DescribeOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const BenchmarkOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const LaunchOn& action, const CommandContext& context);
[[nodiscard]] wire::ToAgent command(const KillOn& action, const CommandContext& context);

[[nodiscard]] wire::ToAgent message(const ProposePlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const CommitPlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const CancelPlan& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const MeasureAgain& action, const std::string& job_name);
[[nodiscard]] wire::ToAgent message(const StopRanks& action, const std::string& job_name);

// "7-launch-3" or "tcp://10.0.0.5:21234"; nothing: the node of rank 0 has not been heard of, and where it is is not
// known. `name`: unique in this coordinator. REQUIRES: nodes is not empty.
[[nodiscard]] std::optional<std::string> rendezvous(const std::string& name, const std::vector<NodeShare>& nodes,
                                                    const Membership& members, const PortRange& ports);

}  // namespace trimtab::coordinator
