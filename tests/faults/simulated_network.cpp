#include "simulated_network.hpp"

#include <algorithm>
#include <utility>

#include "seeded_runs.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;

namespace {

// After so long without a word an agent gives a connection up; a coordinator, at most so long.
constexpr Nanoseconds kAgentsPatience = 15s;
constexpr Nanoseconds kCoordinatorsPatience = 60s;

}  // namespace

Nanoseconds SimulatedNetwork::between(Nanoseconds low, Nanoseconds high) {
  return Nanoseconds(random_.between(low.count(), high.count()));
}

Nanoseconds SimulatedNetwork::delay() {
  if (behaves_ || random_.below(50) != 0) return between(50us, 20ms);
  met("late frame");
  return between(100ms, 5s);
}

Nanoseconds SimulatedNetwork::until_noticed() {
  return behaves_ || random_.below(2) == 0 ? between(1ms, 100ms) : between(1s, kAgentsPatience);
}

Nanoseconds SimulatedNetwork::cut_until(std::size_t agent) const {
  const auto found = cuts_.find(agent);
  return found == cuts_.end() ? 0ns : found->second;
}

SimulatedNetwork::Peer SimulatedNetwork::connect(std::size_t agent) {
  if (!coordinator_up_ || cut_until(agent) > time_.now()) return 0;
  Connection& fresh = connections_[++last_];
  fresh.agent = agent;
  fresh.coordinator = coordinators_;
  return last_;
}

bool SimulatedNetwork::send(Peer peer, std::string frame, bool up) {
  const auto found = connections_.find(peer);
  if (found == connections_.end()) return false;
  Connection& connection = found->second;
  if (!(up ? connection.open_at_agent : connection.open_at_coordinator)) return false;
  Nanoseconds& last = up ? connection.last_up : connection.last_down;
  last = std::max({last, time_.now(), cut_until(connection.agent)}) + delay();
  if (!behaves_ && random_.below(60) == 0) {
    met("frame that comes twice");
    schedule(peer, frame, up, last + between(0ns, 3s), Times::kAgain);
  }
  if (up) connection.queued += frame.size();
  schedule(peer, std::move(frame), up, last, Times::kFirst);
  return true;
}

std::size_t SimulatedNetwork::queued_by_agent(Peer peer) const {
  const auto found = connections_.find(peer);
  return found == connections_.end() ? 0 : found->second.queued;
}

void SimulatedNetwork::schedule(Peer peer, std::string frame, bool up, Nanoseconds when, Times times) {
  time_.after(when - time_.now(),
              [this, peer, up, times, frame = std::move(frame)] { deliver(peer, frame, up, times); });
}

void SimulatedNetwork::deliver(Peer peer, const std::string& frame, bool up, Times times) {
  Connection& connection = connections_.at(peer);
  if (connection.severed) return;
  // A network that was cut meanwhile holds it, and those behind it.
  if (const Nanoseconds until = cut_until(connection.agent); until > time_.now()) {
    return schedule(peer, frame, up, until, times);
  }
  if (up && times == Times::kFirst) connection.queued -= frame.size();
  if (up && connection.open_at_coordinator) ends_.to_coordinator(peer, frame);
  if (!up && connection.open_at_agent) ends_.to_agent(connection.agent, peer, frame);
}

void SimulatedNetwork::close_now(Peer peer, bool at_agent) {
  Connection& connection = connections_.at(peer);
  bool& open = at_agent ? connection.open_at_agent : connection.open_at_coordinator;
  if (!std::exchange(open, false)) return;
  at_agent ? ends_.closed_at_agent(connection.agent, peer) : ends_.closed_at_coordinator(peer);
}

void SimulatedNetwork::close_later(Peer peer, bool at_agent, Nanoseconds delay) {
  time_.after(delay, [this, peer, at_agent] { close_now(peer, at_agent); });
}

void SimulatedNetwork::close_by_agent(Peer peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || !found->second.open_at_agent) return;
  found->second.open_at_agent = false;
  close_later(peer, false, std::max(found->second.last_up - time_.now(), Nanoseconds(0)) + until_noticed());
}

void SimulatedNetwork::close_by_coordinator(Peer peer) {
  const auto found = connections_.find(peer);
  if (found == connections_.end() || !found->second.open_at_coordinator) return;
  close_later(peer, false, 0ns);
  close_later(peer, true, std::max(found->second.last_down - time_.now(), Nanoseconds(0)) + 1ms);
}

void SimulatedNetwork::agent_gone(std::size_t agent) {
  for (auto& [peer, connection] : connections_) {
    if (connection.agent != agent || !connection.open_at_agent) continue;
    connection.open_at_agent = false;
    connection.severed = random_.below(2) == 0;
    close_later(peer, false, until_noticed());
  }
}

void SimulatedNetwork::coordinator_gone() {
  coordinator_up_ = false;
  for (auto& [peer, connection] : connections_) {
    if (!connection.open_at_coordinator) continue;
    connection.open_at_coordinator = false;
    connection.severed = random_.below(2) == 0;
    close_later(peer, true, until_noticed());
  }
}

void SimulatedNetwork::cut(std::size_t agent, Nanoseconds duration) {
  met("cut network");
  cuts_[agent] = time_.now() + duration;
  if (duration < kAgentsPatience) return;
  for (auto& [peer, connection] : connections_) {
    if (connection.agent != agent || !connection.open_at_agent) continue;
    close_later(peer, true, between(1s, kAgentsPatience));
    close_later(peer, false, between(1s, kCoordinatorsPatience));
    // The system's buffers go with the connection, or are read to their end.
    connection.severed = random_.below(2) == 0;
  }
}

void SimulatedNetwork::behave() {
  behaves_ = true;
  cuts_.clear();
}

}  // namespace trimtab::test
