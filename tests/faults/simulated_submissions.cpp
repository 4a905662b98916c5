// Launches that a scheduler carries out: the launcher's word, and the slots that become ranks.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "seeded_runs.hpp"
#include "simulated_ranks.hpp"

namespace trimtab::test {

using namespace std::chrono_literals;
using nlohmann::json;

void SimulatedRanks::submit(pid_t pid) {
  const std::uint64_t launch = processes_.at(pid).launch;
  queue(launch);
  time_.after(between(200ms, behaves_ ? 2s : 15s), [this, launch] { start_slots(launch); });
}

// A sign of life while it waits.
void SimulatedRanks::queue(std::uint64_t launch) {
  const auto found = submissions_.find(launch);
  if (found == submissions_.end() || found->second.started || launcher_of(launch) == 0) return;
  tell_submission(launch, "queued");
  time_.after(5s, [this, launch] { queue(launch); });
}

void SimulatedRanks::start_slots(std::uint64_t launch) {
  const auto found = submissions_.find(launch);
  if (found == submissions_.end() || std::exchange(found->second.started, true)) return;
  for (const std::size_t node : found->second.nodes) {
    Process slot;
    slot.node = node;
    slot.launch = launch;
    slot.slot = true;
    const pid_t pid = ++last_pid_;
    processes_[pid] = std::move(slot);
    connect(pid);
    // Where no agent answers.
    time_.after(30s, [this, pid] {
      const auto there = processes_.find(pid);
      if (there != processes_.end() && there->second.slot) end(pid, 1, 0);
    });
  }
  tell_submission(launch, "started");
  look(launch);
}

void SimulatedRanks::hear_as_slot(pid_t pid, Process& process, const std::string& type, const std::string& frame) {
  if (process.ends) return;
  if (type != "run") {
    met("slot that is refused");
    return end(pid, 1, 0);
  }
  process.slot = false;
  fill(process, json::parse(frame).at("environment").get<agent::Environment>());
  starts(process);
  time_.after(0ns,
              [this, node = process.node, peer = std::exchange(process.peer, 0)] { nodes_[node].side.close(peer); });
  time_.after(between(100ms, 2s), [this, pid] { begin(pid); });
}

// Until all of its processes have ended.
void SimulatedRanks::look(std::uint64_t launch) {
  const auto found = submissions_.find(launch);
  if (found == submissions_.end()) return;
  const bool runs = std::ranges::any_of(
      processes_, [&](const auto& one) { return one.second.launch == launch && !one.second.launcher; });
  if (!runs) return conclude(launch, found->second.failed ? "failed" : "completed");
  time_.after(500ms, [this, launch] { look(launch); });
}

void SimulatedRanks::cancel(std::uint64_t launch) {
  if (submissions_.erase(launch) == 0) return;
  tell_submission(launch, "cancelled");
  for (const auto& [pid, process] : processes_) {
    if (process.launch != launch || process.launcher) continue;
    time_.after(between(1ms, 1s), [this, of = pid] { end(of, 0, 9); });
  }
}

pid_t SimulatedRanks::launcher_of(std::uint64_t launch) const {
  const auto found = std::ranges::find_if(
      processes_, [&](const auto& one) { return one.second.launch == launch && one.second.launcher; });
  return found == processes_.end() ? 0 : found->first;
}

std::size_t SimulatedRanks::launchers() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& one) { return one.second.launcher && one.second.released; }));
}

void SimulatedRanks::tell_submission(std::uint64_t launch, const std::string& state) {
  const pid_t pid = launcher_of(launch);
  if (pid == 0) return;
  processes_.at(pid).state = state;
  say(pid, json{{"type", "submission"}, {"state", state}, {"message", "the submission is " + state}}.dump());
}

// The launcher ends when it has told somebody, or soon.
void SimulatedRanks::conclude(std::uint64_t launch, const std::string& state) {
  submissions_.erase(launch);
  const pid_t pid = launcher_of(launch);
  if (pid == 0) return;
  met(state == "completed" ? "submission that completed" : "submission that failed");
  tell_submission(launch, state);
  const bool told = processes_.at(pid).peer != 0;
  time_.after(told ? 200us : Nanoseconds(10s), [this, pid] { end(pid, 0, 0); });
}

}  // namespace trimtab::test
