#include "jobs/node_commands.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <type_traits>

#include "agents/wire_commands.hpp"
#include "base/check.hpp"
#include "costs/nccl_tables.hpp"
#include "state_store.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// Bytes of a message that does not wait for room.
constexpr std::size_t kSmallMessage = std::size_t{64} << 10;

}  // namespace

// What an agent reads at once, and what leaves room in its queue.
std::size_t NodeCommands::largest_message() const {
  return static_cast<std::size_t>(std::min(services_.settings.max_frame, services_.settings.peer_queue / 4 * 3));
}

bool NodeCommands::has_room(const std::string& node, std::size_t bytes) const {
  return !services_.has_room || services_.has_room(node, bytes);
}

// Kills are small, and wait for nothing. What no message holds has failed.
void NodeCommands::send_or_keep(Command command, const wire::ToAgent& to) {
  command.bytes = to.ByteSizeLong();
  if (command.bytes > largest_message()) {
    const Status marked = services_.store.command_done(to.command().id());
    if (!marked.ok()) spdlog::warn("command {}: {}", to.command().id(), marked.error().message);
    CommandFinished failed;
    failed.tag = command.tag;
    failed.ok = false;
    failed.error = "the command for node " + command.node + " has " + std::to_string(command.bytes) +
                   " bytes with the job's documents, but a message has at most " + std::to_string(largest_message()) +
                   " (max_frame, and three quarters of peer_queue). Make the job's model or plan smaller, or raise "
                   "those of the coordinator, and max_frame of its agents";
    return fail_(std::move(failed));
  }
  std::erase_if(unsent_, [&](const Command& one) { return one.tag == command.tag && one.node == command.node; });
  const bool goes = to.command().has_kill() || has_room(command.node, command.bytes);
  if (goes && services_.send(command.node, to)) return;
  spdlog::info("job {}: command {} waits for node {}", state_.job.name, command.tag, command.node);
  if (!goes) unsent_.push_back(std::move(command));
}

// A large plan without room is not heard of, as where the node is away: nobody waits for it longer than for an answer.
bool NodeCommands::tell(const std::string& node, const wire::ToAgent& to) const {
  const std::size_t bytes = to.ByteSizeLong();
  const bool goes = bytes <= kSmallMessage || (bytes <= largest_message() && has_room(node, bytes));
  return goes && services_.send(node, to);
}

std::optional<std::string> NodeCommands::meeting_place(const std::string& name) const {
  return rendezvous(std::to_string(run_) + "-" + name, state_.nodes, services_.members,
                    services_.settings.rendezvous_ports);
}

// The command waits for its id, once, however often it is asked for; it is said once in a row.
void NodeCommands::number_later(Command command, const std::string& why) {
  const bool waits = std::ranges::any_of(
      numbered_later_, [&](const Command& one) { return one.tag == command.tag && one.node == command.node; });
  if (waits) return;
  std::string unnumbered = command.tag + "/" + command.node;
  if (unnumbered != unnumbered_) {
    spdlog::error("job {}: no id for command {} yet: {}", state_.job.name, command.tag, why);
    unnumbered_ = std::move(unnumbered);
  }
  numbered_later_.push_back(std::move(command));
}

template <typename OnNode>
void NodeCommands::send_command(const OnNode& action) {
  std::optional<std::string> meeting = std::string();
  if constexpr (requires { action.rendezvous; }) {
    meeting = meeting_place(action.rendezvous);
    if (!meeting) {
      spdlog::info("job {}: command {} for node {} waits for the node of rank 0, where ranks meet", state_.job.name,
                   action.tag, action.node);
      return meeting_later_.push_back(action);
    }
  }
  if constexpr (std::is_same_v<OnNode, KillOn>) {  // nothing is begun behind it
    meeting_later_.clear();
    std::erase_if(numbered_later_, [](const Command& one) { return !std::holds_alternative<KillOn>(one.action); });
    std::erase_if(unsent_, [&](const Command& one) { return one.node == action.node; });
  }
  // What runs there is ended in any case; nothing is begun.
  const Member* member = services_.members.by_node(action.node);
  if (!std::is_same_v<OnNode, KillOn> && member != nullptr && !member->serves(state_.tenant)) {
    return spdlog::warn("job {}: command {} waits: node {} does not serve its tenant", state_.job.name, action.tag,
                        action.node);
  }
  auto id = services_.store.command_id(run_, action.tag, action.node);
  if (!id.ok()) return number_later({action, action.tag, action.node}, id.error().message);
  Result<std::string> table = std::string();
  if constexpr (std::is_same_v<OnNode, LaunchOn>) {
    table = nccl_table_of_launch(services_.nccl_table_directory, run_, action.launch,
                                 [this] { return services_.costs.costs(state_.fingerprint, {CostKind::kCollective}); });
  }
  if (!table.ok()) {
    // The deadline of the launch is the backstop.
    spdlog::error("job {}: command {} is not sent: {}", state_.job.name, action.tag, table.error().message);
    return;
  }
  // A target's plan is written by every node, and `describe` ran on one.
  Job job = state_.running_job();
  if (!job.target.empty() && job.model_json.empty()) job.model_json = state_.model_json;
  const CommandContext context{*id, state_.job.name, to_json(job), *meeting, std::move(table).value()};
  wire::ToAgent to = command(action, context);
  to.mutable_command()->set_tenant(state_.tenant);
  send_or_keep({action, action.tag, action.node}, to);
}

void NodeCommands::send(const Action& action) {
  std::visit(
      [this](const auto& one) {
        if constexpr (requires { one.tag; }) {
          send_command(one);
        } else if constexpr (requires { message(one, state_.job.name); }) {
          for (const NodeShare& share : state_.nodes) {
            if (tell(share.node, message(one, state_.job.name))) continue;
            spdlog::info("job {}: node {} is away, or much waits for it, and it does not hear of a plan change",
                         state_.job.name, share.node);
          }
        } else {
          TRIMTAB_ASSERT(false, "an action that no node hears of");
        }
      },
      action);
}

void NodeCommands::send_to_meet() {
  if (meeting_later_.empty() || !meeting_place("")) return;
  for (const Action& waiting : std::exchange(meeting_later_, {})) send(waiting);
}

// Kills are always sent. Where the disk still has no room for the first, it has none for the others, which are not
// tried.
void NodeCommands::send_late() {
  for (Command& one : std::exchange(numbered_later_, {})) {
    if (!numbered_later_.empty()) {
      numbered_later_.push_back(std::move(one));
    } else if (state_.is_outstanding(one.tag) || std::holds_alternative<KillOn>(one.action)) {
      send(one.action);
    }
  }
  for (Command& one : std::exchange(unsent_, {})) {
    if (is_final(state_.phase) || !state_.is_outstanding(one.tag)) continue;
    if (has_room(one.node, one.bytes)) {
      send(one.action);
    } else {
      unsent_.push_back(std::move(one));
    }
  }
}

}  // namespace trimtab::coordinator
