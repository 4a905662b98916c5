#include "agents/wire_commands.hpp"

#include <algorithm>
#include <variant>

#include "base/check.hpp"
#include "net/host_text.hpp"
#include "schema/hash64.hpp"
#include "tuning/state.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// A benchmark that hangs must not hold up the cluster for ever; a slow machine needs minutes for a large model.
constexpr double kBenchmarkDeadlineSeconds = 900;

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  if (ranks.empty()) return "no rank";
  const std::string first = std::to_string(ranks.front());
  return ranks.size() == 1 ? "rank " + first : "ranks " + first + " to " + std::to_string(ranks.back());
}

struct Words {
  std::string operator()(const DescribeOn& one) const { return "describe the model on " + one.node; }
  std::string operator()(const BenchmarkOn& one) const {
    return "benchmark with " + ranks_text(one.ranks) + " on " + one.node;
  }
  std::string operator()(const LaunchOn& one) const {
    return "launch " + ranks_text(one.ranks) + " on " + one.node + " (launch " + std::to_string(one.launch) +
           ", epoch " + std::to_string(one.epoch) + (one.variant.empty() ? "" : ", variant " + one.variant) + ")";
  }
  std::string operator()(const KillOn& one) const {
    return "end the ranks of launch " + std::to_string(one.launch) + " on " + one.node +
           (one.unsaved ? ", which save nothing" : "");
  }
  std::string operator()(const ProposePlan& one) const {
    return std::string("propose ") + (one.incumbent ? "the incumbent" : "a plan") + " as epoch " +
           std::to_string(one.epoch);
  }
  std::string operator()(const CommitPlan& one) const {
    return "commit epoch " + std::to_string(one.epoch) + " from step " + std::to_string(one.step);
  }
  std::string operator()(const CancelPlan& one) const { return "cancel epoch " + std::to_string(one.epoch); }
  std::string operator()(const StopRanks& one) const { return "stop the job after step " + std::to_string(one.step); }
  std::string operator()(const ProbeHardware& one) const {
    return one.urgent ? "probe devices and links" : "look at devices and links";
  }
  std::string operator()(const MeasureAgain& one) const {
    return one.request_json.empty() ? "measure nothing again" : "measure what is doubtful again, between two steps";
  }
  template <typename Internal>
  std::string operator()(const Internal&) const {
    return "";
  }
};

// An agent beside the coordinator connects over loopback. The others reach that machine where they reach the
// coordinator.
std::string address_for_others(const Member& first, const std::vector<NodeShare>& nodes, const Membership& members) {
  if (!net::is_loopback_host(first.address)) return first.address;
  for (const NodeShare& share : nodes) {
    const Member* other = members.by_node(share.node);
    if (other == nullptr || other->address.empty() || net::is_loopback_host(other->address)) continue;
    if (!other->coordinator_address.empty()) return other->coordinator_address;
  }
  return first.address;
}

}  // namespace

wire::ToAgent command(const DescribeOn&, const CommandContext& context) {
  wire::ToAgent to;
  to.mutable_command()->set_id(context.id);
  to.mutable_command()->mutable_describe()->set_job_json(context.job_json);
  return to;
}

wire::ToAgent command(const BenchmarkOn& action, const CommandContext& context) {
  wire::ToAgent to;
  to.mutable_command()->set_id(context.id);
  wire::Benchmark& benchmark = *to.mutable_command()->mutable_benchmark();
  benchmark.set_job_json(context.job_json);
  benchmark.set_requests_json(action.requests_json);
  for (const std::uint32_t rank : action.ranks) benchmark.add_ranks(rank);
  benchmark.set_rendezvous(context.rendezvous);
  benchmark.set_deadline_s(kBenchmarkDeadlineSeconds);
  return to;
}

wire::ToAgent command(const LaunchOn& action, const CommandContext& context) {
  wire::ToAgent to;
  to.mutable_command()->set_id(context.id);
  wire::Launch& launch = *to.mutable_command()->mutable_launch();
  launch.set_job_json(context.job_json);
  launch.set_plan_json(action.plan_json);
  for (const std::uint32_t rank : action.ranks) launch.add_ranks(rank);
  launch.set_rendezvous(context.rendezvous);
  launch.set_launch(action.launch);
  launch.set_epoch(action.epoch);
  launch.set_fresh(action.fresh);
  launch.set_variant(action.variant);
  launch.set_of_trial(action.variant == kTrialVariant);
  launch.set_steps(action.steps);
  launch.set_nccl_table(context.nccl_table);
  for (const NodeShare& share : action.nodes) {
    wire::NodeRanks& node = *launch.add_nodes();
    node.set_node(share.node);
    node.set_ranks(static_cast<std::uint32_t>(share.ranks));
  }
  return to;
}

wire::ToAgent command(const KillOn& action, const CommandContext& context) {
  wire::ToAgent to;
  to.mutable_command()->set_id(context.id);
  wire::Kill& kill = *to.mutable_command()->mutable_kill();
  kill.set_job(context.job_name);
  kill.set_launch(action.launch);
  kill.set_variant(action.variant);
  kill.set_unsaved(action.unsaved);
  return to;
}

wire::ToAgent message(const ProposePlan& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_plan_propose()->set_job(job_name);
  to.mutable_plan_propose()->set_epoch(action.epoch);
  to.mutable_plan_propose()->set_plan_json(action.plan_json);
  to.mutable_plan_propose()->set_incumbent(action.incumbent);
  return to;
}

wire::ToAgent message(const CommitPlan& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_plan_commit()->set_job(job_name);
  to.mutable_plan_commit()->set_epoch(action.epoch);
  to.mutable_plan_commit()->set_step(action.step);
  return to;
}

wire::ToAgent message(const CancelPlan& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_plan_cancel()->set_job(job_name);
  to.mutable_plan_cancel()->set_epoch(action.epoch);
  return to;
}

wire::ToAgent message(const MeasureAgain& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_measure_again()->set_job(job_name);
  to.mutable_measure_again()->set_number(action.number);
  to.mutable_measure_again()->set_request_json(action.request_json);
  return to;
}

wire::ToAgent message(const StopRanks& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_stop_job()->set_job(job_name);
  to.mutable_stop_job()->set_step(action.step);
  return to;
}

std::string audited(const Action& action) {
  return std::visit(Words(), action);
}

std::optional<std::string> rendezvous(const std::string& name, const std::vector<NodeShare>& nodes,
                                      const Membership& members, const PortRange& ports) {
  TRIMTAB_ASSERT(!nodes.empty(), "a launch is of ranks on nodes");
  if (nodes.size() == 1) return name;
  const auto by_rank = [](const NodeShare& a, const NodeShare& b) { return a.first_rank < b.first_rank; };
  const Member* first = members.by_node(std::ranges::min_element(nodes, by_rank)->node);
  if (first == nullptr || first->address.empty()) return std::nullopt;
  const std::string host = address_for_others(*first, nodes, members);
  const std::uint64_t count = std::uint64_t{ports.last} - ports.first + 1;
  // The same in every release: a launch that is asked for again meets where it met.
  return "tcp://" + net::authority(host, static_cast<std::uint16_t>(ports.first + hash64(name) % count));
}

}  // namespace trimtab::coordinator
