// protocol_simulation: agents and a coordinator over their real storage and membership, in virtual time, on disks and a
// network that fail. Nothing acknowledged is lost, nothing counts twice, no command that was written down as done is
// done again; and when everything behaves again all of it arrives. Machines are set back to older copies, too: what
// came since is lost then, and nothing else. Arguments: seeded_runs.hpp.
//
// Of the protocol: Hello, Welcome and Refused, heartbeats, batches of costs with their acknowledgements, and commands
// with their answers, all of them Describe. Not: jobs and their ranks, plans and their changes, trials, probes, traces,
// NCCL's collectives; nor TLS and WebSocket frames. The coordinator's side is its own `Agents`; what an agent says is
// said by the simulation in its place, over its real storage.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "seeded_runs.hpp"
#include "simulated_agent.hpp"
#include "simulated_coordinator.hpp"

namespace trimtab::test {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kFaults = 90s;
// All that must still happen has happened by then: the longest of the protocol's own times is CostStore::kAnswerTime.
constexpr Nanoseconds kPeace = 180s;

class Cluster {
 public:
  explicit Cluster(std::uint64_t seed)
      : random_(seed),
        network_(
            time_, random_,
            {[this](auto peer, const std::string& frame) { coordinator_.received(peer, frame); },
             [this](auto peer) { coordinator_.closed(peer); },
             [this](std::size_t agent, auto peer, const std::string& frame) { agents_[agent]->received(peer, frame); },
             [this](std::size_t agent, auto peer) { agents_[agent]->closed(peer); }}),
        coordinator_(time_, random_, network_) {}

  void run() {
    const std::size_t count = 1 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      agents_.push_back(std::make_unique<SimulatedAgent>(i, time_, random_, network_));
    }
    coordinator_.boot();
    for (auto& agent : agents_) agent->boot();
    trouble();
    time_.run_until(kFaults);
    troubled_ = false;
    network_.behave();
    coordinator_.behave();
    for (auto& agent : agents_) agent->behave();
    for (Nanoseconds end = kFaults + 1s; !idle(); end += 1s) {
      expect(end < kFaults + kPeace, "everything is acknowledged and done once all behave: " + what_waits());
      time_.run_until(end);
    }
    check();
  }

 private:
  // Something goes wrong, and again later.
  void trouble() {
    time_.after(Nanoseconds(random_.between(0, 6'000'000'000)), [this] {
      if (!troubled_) return;
      fail();
      trouble();
    });
  }

  void fail() {
    SimulatedAgent& agent = *agents_[random_.below(agents_.size())];
    const Nanoseconds jump = Nanoseconds(random_.between(-7'200'000'000'000, 7'200'000'000'000));
    switch (random_.below(8)) {
      case 0:
        return agent.kill();
      case 1:
        return coordinator_.kill();
      case 2:
        met("clock that jumps");
        return agent.jump_clock(jump);
      case 3:
        met("clock that jumps");
        return coordinator_.jump_clock(jump);
      case 4:
        return network_.cut(random_.below(agents_.size()), Nanoseconds(random_.between(0, 2'000'000'000)));
      case 5:
        return network_.cut(random_.below(agents_.size()), Nanoseconds(random_.between(0, 60'000'000'000)));
      default:
        return coordinator_.want("command " + std::to_string(++commands_) + " of " + agent.node(), agent.node());
    }
  }

  [[nodiscard]] bool idle() const {
    for (const auto& agent : agents_) {
      if (!agent->waits_for().empty() || !coordinator_.idle()) return false;
      if (agent->peer() != coordinator_.peer_of(agent->node())) return false;
    }
    return true;
  }
  [[nodiscard]] std::string what_waits() const {
    std::string waits = coordinator_.idle() ? "" : "the coordinator for commands; ";
    for (const auto& agent : agents_) {
      waits += agent->node() + " for " + (agent->waits_for().empty() ? "nothing" : agent->waits_for()) + "; ";
    }
    return waits;
  }

  void check() const {
    const auto merged = coordinator_.costs();
    for (const auto& agent : agents_) {
      const auto own = agent->own_costs();
      for (const std::string& subject : agent->kept) {
        expect(merged.contains(subject) || coordinator_.lost.contains(subject),
               "what was in the spool is with the coordinator: " + subject);
        expect(own.contains(subject), "and in the agent's own database: " + subject);
      }
      for (const auto& [subject, count] : own) {
        expect(count == 1, "a measurement counts once with its agent: " + subject);
      }
      check_commands(*agent);
    }
    for (const auto& [subject, count] : merged) {
      expect(count == 1, "a measurement counts once: " + subject);
      expect(is_known(subject), "the coordinator has what agents have had, and nothing else: " + subject);
    }
    expect(coordinator_.batches_lost() == 0 || coordinator_.was_set_back, "no batch is taken for lost that is not");
  }

  [[nodiscard]] bool is_known(const std::string& subject) const {
    return std::ranges::any_of(agents_, [&](const auto& agent) {
      return agent->kept.contains(subject) || agent->perhaps_kept.contains(subject) || agent->unsure.contains(subject);
    });
  }

  void check_commands(const SimulatedAgent& agent) const {
    for (const auto& [tag, output] : agent.recorded) {
      expect(coordinator_.outputs.contains(tag), "a command that was done is answered");
      const bool once = !agent.runs_lost.contains(tag) && agent.runs.at(tag) == 1;
      expect(!once || coordinator_.outputs.at(tag) == output, "a command that ran once has the answer of that run");
    }
  }

  VirtualTime time_;
  Random random_;
  SimulatedNetwork network_;
  SimulatedCoordinator coordinator_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  bool troubled_ = true;
  int commands_ = 0;
};

void protocol(std::uint64_t seed) {
  Cluster(seed).run();
}

}  // namespace

}  // namespace trimtab::test

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);
  return trimtab::test::run_seeds(argc, argv, 1000, {{"protocol", trimtab::test::protocol}});
}
