#include "agents/wire_commands.hpp"

#include "tuning/state.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// A benchmark that hangs must not hold up the cluster for ever; a slow machine needs minutes for a large model.
constexpr double kBenchmarkDeadlineSeconds = 900;

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

wire::ToAgent message(const StopRanks& action, const std::string& job_name) {
  wire::ToAgent to;
  to.mutable_stop_job()->set_job(job_name);
  to.mutable_stop_job()->set_step(action.step);
  return to;
}

}  // namespace trimtab::coordinator
