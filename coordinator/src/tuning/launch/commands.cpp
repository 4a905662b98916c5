#include "tuning/launch/commands.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::coordinator {

namespace {

// Of CommandTag::benchmark(). An earlier coordinator may have asked for it: the tag says as what.
std::string benchmark_named_in(const OutstandingCommand& command) {
  const std::string_view kind = "benchmark/";
  const std::size_t rest = kind.size() + 1 + command.node.size();
  return command.tag.text.substr(kind.size(), command.tag.text.size() - rest);
}

}  // namespace

void Commands::ask(OutstandingCommand command) {
  outstanding_.push_back(std::move(command));
  send(outstanding_.back());
}

void Commands::describe() {
  ask({"describe", view_.state.nodes.front().node, CommandKind::kDescribe});
}

void Commands::benchmark() {
  for (const NodeShare& share : view_.state.nodes) {
    ask({CommandTag::benchmark(benchmark_name(), share.node), share.node, CommandKind::kBenchmark});
  }
}

// A job that has had launches is profiled once more: nothing of the first time is of that name. Nor is what is
// repeated.
std::string Commands::benchmark_name() const {
  const ProfilingState& profiling = view_.state.profiling;
  std::string number = std::to_string(profiling.near.requests_done + profiling.request_next);
  if (profiling.request_repeats > 0) number += "-again-" + std::to_string(profiling.request_repeats);
  return view_.state.launch > 0 ? "of-" + std::to_string(view_.state.launch) + "-" + number : number;
}

void Commands::launch() {
  for (const NodeShare& share : view_.state.nodes) {
    ask({CommandTag::launching(view_.state.launch, share.node), share.node, CommandKind::kLaunch});
  }
}

void Commands::kill(KillReach reach) {
  forget(CommandKind::kLaunch);
  forget(CommandKind::kKill);
  for (const NodeShare& share : view_.state.nodes) kill_on(share.node, reach);
}

void Commands::kill_on(const std::string& node, KillReach reach) {
  ask({CommandTag::kill(reach, view_.state.launch, node), node, CommandKind::kKill});
  kill_brought_back(node);
}

// It saves its checkpoint as it does whenever it is asked to end.
void Commands::kill_brought_back(const std::string& node) {
  const auto own = brought_back_.find(node);
  if (own == brought_back_.end()) return;
  ask({CommandTag::kill(KillReach::kBroughtBack, own->second, node), node, CommandKind::kKill});
  brought_back_.erase(own);
}

void Commands::kill_strays(const NodeBack& back) {
  const bool may_copy = view_.state.is_restarted() && !view_.state.elastic.resizes.empty();
  if (back.ranks.empty() && !may_copy) return;
  std::uint64_t launch = view_.state.launch;
  bool of_this = false;
  for (const RankThere& there : back.ranks) {
    launch = std::max(launch, there.launch);
    of_this = of_this || there.launch == view_.state.launch;
  }
  const std::string tag = CommandTag::kill_strays(launch, back.node).text;
  out_.act(KillOn{tag, back.node, launch, "", !of_this});
  if (!view_.state.is_restarted()) return;
  out_.act(KillOn{tag + "/trial", back.node, launch, std::string(kTrialVariant)});
}

void Commands::send_again(const std::string& node) {
  for (const OutstandingCommand& command : outstanding_) {
    if (command.node == node) send(command);
  }
}

void Commands::take_brought_back(const NodeBack& back) {
  if (!view_.state.is_restarted()) return;
  for (const RankThere& there : back.ranks) {
    if (there.of_job && there.launch > view_.state.launch) brought_back_[back.node] = there.launch;
  }
  if (!brought_back_.contains(back.node)) return;
  out_.note("ranks", "node " + back.node + " has brought the job back to the plan that it keeps by itself, as launch " +
                         std::to_string(brought_back_[back.node]) + ": it is launched again under this coordinator");
  if (view_.state.doing == Doing::kKilling) kill_brought_back(back.node);
}

std::optional<CommandKind> Commands::finished(const std::string& tag) {
  const auto found = std::ranges::find_if(outstanding_, [&](const auto& one) { return one.tag.text == tag; });
  if (found == outstanding_.end()) return std::nullopt;
  const CommandKind kind = found->kind;
  outstanding_.erase(found);
  out_.changed = true;
  return kind;
}

void Commands::forget(CommandKind kind) {
  std::erase_if(outstanding_, [kind](const OutstandingCommand& one) { return one.kind == kind; });
}

void Commands::forget_of(const std::set<std::string>& nodes) {
  std::erase_if(outstanding_, [&](const OutstandingCommand& one) { return nodes.contains(one.node); });
}

void Commands::send(const OutstandingCommand& command) {
  const TuningState& state = view_.state;
  switch (command.kind) {
    case CommandKind::kDescribe:
      return out_.act(DescribeOn{command.tag.text, command.node});
    case CommandKind::kBenchmark:
      return out_.act(BenchmarkOn{command.tag.text, command.node, state.ranks_of(command.node),
                                  state.profiling.requests[state.profiling.request_next],
                                  "benchmark-" + benchmark_named_in(command)});
    case CommandKind::kLaunch:
      return send_launch(command);
    case CommandKind::kKill:
      return send_kill(command);
  }
}

void Commands::send_launch(const OutstandingCommand& command) {
  const TuningState& state = view_.state;
  LaunchOn launch{command.tag.text,
                  command.node,
                  state.ranks_of(command.node),
                  state.launch_plan.json,
                  "launch-" + std::to_string(state.launch),
                  state.launch,
                  state.launch_epoch,
                  state.launch_fresh,
                  state.launch_variant,
                  state.launch_steps,
                  {}};
  // Rank 0's node hands the launch to the scheduler, which must know where each rank belongs.
  const bool submits = state.is_submitted() && !state.nodes.empty() && state.nodes.front().node == command.node;
  if (submits) launch.nodes = state.nodes;
  out_.act(std::move(launch));
}

void Commands::send_kill(const OutstandingCommand& command) {
  const TuningState& state = view_.state;
  KillOn kill{command.tag.text, command.node, state.launch, state.launch_variant,
              state.spoilt_step >= 0 && !state.runs_trial()};
  if (command.tag.reach == KillReach::kAll) kill.launch = 0;
  if (command.tag.reach == KillReach::kBroughtBack) kill = {kill.tag, kill.node, command.tag.launch, ""};
  out_.act(std::move(kill));
}

}  // namespace trimtab::coordinator
