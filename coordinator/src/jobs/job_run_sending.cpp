// What of a job's commands and messages goes to a node now, what later, and what never: all that waits for a node
// shares one queue (net::Server::has_room), and one that is full would end the node's link.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "jobs/job_run.hpp"
#include "needs.hpp"
#include "wire/agent.pb.h"

namespace trimtab::coordinator {
namespace {

// Bytes of a message that does not wait for room.
constexpr std::size_t kSmallMessage = std::size_t{64} << 10;

}  // namespace

// What an agent reads at once, and what leaves room in its queue.
std::size_t JobRun::largest_message() const {
  return static_cast<std::size_t>(std::min(services_.settings.max_frame, services_.settings.peer_queue / 4 * 3));
}

bool JobRun::has_room(const std::string& node, std::size_t bytes) const {
  return !services_.has_room || services_.has_room(node, bytes);
}

// Kills are small, and wait for nothing. What no message holds has failed.
void JobRun::send_or_keep(Unsent command, const wire::ToAgent& to) {
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
    return feed(std::move(failed));
  }
  std::erase_if(unsent_, [&](const Unsent& one) { return one.tag == command.tag && one.node == command.node; });
  const bool goes = to.command().has_kill() || has_room(command.node, command.bytes);
  if (goes && services_.send(command.node, to)) return;
  spdlog::info("job {}: command {} waits for node {}", name(), command.tag, command.node);
  if (!goes) unsent_.push_back(std::move(command));
}

// A large plan without room is not heard of, as where the node is away: nobody waits for it longer than for an answer.
bool JobRun::tell(const std::string& node, const wire::ToAgent& to) const {
  const std::size_t bytes = to.ByteSizeLong();
  const bool goes = bytes <= kSmallMessage || (bytes <= largest_message() && has_room(node, bytes));
  return goes && services_.send(node, to);
}

}  // namespace trimtab::coordinator
