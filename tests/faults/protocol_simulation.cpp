// protocol_simulation: agents, a coordinator and a job that is tuned, in virtual time, on disks, a network and machines
// that fail. Nothing acknowledged is lost, nothing counts twice, no command that was written down as done is done
// again, a launch starts each rank once and none that was to end begins, ranks run plans that were committed, all of
// them one; and when everything behaves again all of it arrives, no stray rank lives, and every rank runs the
// incumbent. Machines are set back to older copies, too: what came since is lost then, and nothing else. Databases are
// removed while they are open, and lose nothing by it. A disk flips a bit of one: nothing wrong is told or done then,
// and what is lost is named. Arguments: seeded_runs.hpp.
//
// Real: the coordinator's `Agents`, membership, jobs, probing and databases; the agent's conversation with it, its
// storage, what runs commands and probes, looks after ranks, speaks with them and tells of them. Played: network,
// disks, clocks, processes and the ranks in them, a scheduler, searches, rings, and what descriptions, benchmarks and
// probes find. With the variable TRIMTAB_SIMULATION_LOG both daemons' log is shown.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "seeded_runs.hpp"
#include "simulated_agent.hpp"
#include "simulated_coordinator.hpp"

namespace trimtab::test {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kFaults = 150s;
// All that must still happen has happened by then: the longest of the protocol's own times is CostStore::kAnswerTime,
// and a job may have all of its tuning before it.
constexpr Nanoseconds kPeace = 400s;

// The messages that the runs cover, and those that they do not.
constexpr const char* kCovered =
    "covered: Hello, Welcome, Refused, Heartbeat, CostBatch, BatchAck, Command (Describe, Benchmark, Launch, Kill), "
    "CommandProgress, CommandDone, ProbeBegin, ProbeLink, ProbeEnd, ProbeReport, TraceStart, TraceStop, TraceChunk, "
    "TraceEnd, PlanPropose, PlanCommit, PlanCancel, StopJob, CollectiveStamps, RankActivity, RankEvent (Connected, "
    "Step, "
    "PlanAck, PlanRefuse, PlanActive, PlanFailed, Exited, Bye, Timeline, Submission, Passes), UnfinishedJobs\n"
    "not covered: TLS and WebSocket frames\n";

// What becomes of the job when everything behaves.
enum class Ending { kStopped, kFrozen, kTuned };

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
        ranks_(time_, random_, given_),
        coordinator_(time_, random_, network_, given_) {}

  void run() {
    const std::size_t count = 1 + random_.below(3);
    for (std::size_t i = 0; i < count; ++i) {
      agents_.push_back(std::make_unique<SimulatedAgent>(i, time_, random_, network_, ranks_, collectives_));
    }
    collectives_.set_ranks(static_cast<std::uint32_t>(count));
    coordinator_.hand_in(static_cast<std::int32_t>(count), random_.below(3) == 0);
    coordinator_.boot();
    for (auto& agent : agents_) agent->boot();
    // Some runs come far before anything happens, and some meet less than others.
    const Nanoseconds calm = Nanoseconds(random_.between(0, 60'000'000'000));
    longest_gap_ = random_.below(2) == 0 ? 6s : 25s;
    time_.after(calm, [this] { trouble(); });
    time_.run_until(kFaults);
    troubled_ = false;
    network_.behave();
    coordinator_.behave();
    ranks_.behave();
    ending_ = Ending(random_.below(3));
    if (ending_ == Ending::kStopped) coordinator_.hand_in_no_more();
    for (auto& agent : agents_) agent->behave();
    for (Nanoseconds end = kFaults + 1s; !idle(); end += 1s) {
      expect(end < kFaults + kPeace, "everything is acknowledged and done once all behave: " + what_waits());
      constexpr coordinator::Order kLast[] = {coordinator::Order::kStop, coordinator::Order::kFreeze,
                                              coordinator::Order::kUnfreeze, coordinator::Order::kOwnPlan};
      coordinator_.order(kLast[static_cast<int>(ending_)]);
      time_.run_until(end);
    }
    check();
  }

 private:
  // Something goes wrong, and again later.
  void trouble() {
    time_.after(Nanoseconds(random_.between(0, longest_gap_.count())), [this] {
      if (!troubled_) return;
      fail();
      trouble();
    });
  }

  void fail() {
    SimulatedAgent& agent = *agents_[random_.below(agents_.size())];
    const Nanoseconds jump = Nanoseconds(random_.between(-7'200'000'000'000, 7'200'000'000'000));
    switch (random_.below(14)) {
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
      case 6:
        return ranks_.crash_one();
      case 7: {
        using enum coordinator::Order;
        constexpr coordinator::Order kOrders[] = {kFreeze,   kFreeze,   kUnfreeze, kUnfreeze, kUnfreeze,
                                                  kUnfreeze, kUnfreeze, kUnfreeze, kUnfreeze, kStop};
        return coordinator_.order(kOrders[random_.below(std::size(kOrders))]);
      }
      case 8:
        return coordinator_.trace();
      case 9:
        return coordinator_.probe();
      case 10:
        return random_.below(2) == 0 ? coordinator_.lose_files() : agent.lose_files();
      default:
        return coordinator_.want("command-" + std::to_string(++commands_) + "-of-" + agent.node(), agent.node());
    }
  }

  [[nodiscard]] bool idle() const {
    for (const auto& agent : agents_) {
      if (!agent->waits_for().empty() || !coordinator_.idle()) return false;
      if (coordinator_.traces() || coordinator_.probes()) return false;
      if (agent->peer() != coordinator_.peer_of(agent->node())) return false;
    }
    return job_waits_for().empty();
  }
  // Every rank on the incumbent and none besides, frozen or tuned; or the job is over, and without any.
  [[nodiscard]] std::string job_waits_for() const {
    const coordinator::TuningState* job = coordinator_.job();
    const auto alive = ranks_.alive();
    const bool over = job == nullptr || is_final(job->phase);
    if (ending_ == Ending::kStopped && over) {
      return alive.empty() && ranks_.launchers() == 0 ? "" : "the end of stray ranks";
    }
    if (over) return "a new run";
    const std::string where = std::string(to_string(job->phase)) + ", " + std::string(to_string(job->doing));
    const bool tuned = ending_ == Ending::kFrozen || job->phase == trimtab::Phase::kTraining;
    const bool calm = job->doing == trimtab::Doing::kNothing || job->doing == trimtab::Doing::kMeasuring;
    const bool steered = steers_ranks(job->phase) && job->outstanding.empty();
    if (ending_ == Ending::kStopped || !tuned || !calm || !steered) return "what follows " + where;
    if (std::cmp_not_equal(alive.size(), job->world_size())) return "its ranks, or the end of others";
    const bool all = std::ranges::all_of(alive, [&](const SimulatedRanks::Alive& rank) {
      return rank.launch == job->launch && rank.plan == job->incumbent.json;
    });
    return all ? "" : "every rank on the incumbent in " + where;
  }
  [[nodiscard]] std::string what_waits() const {
    std::string waits = coordinator_.idle() ? "" : "the coordinator for commands; ";
    waits += coordinator_.traces() ? "somebody for a trace; " : "";
    waits += coordinator_.probes() ? "somebody for a probe; " : "";
    waits += job_waits_for().empty() ? "" : "the job for " + job_waits_for() + "; ";
    for (const auto& agent : agents_) {
      waits += agent->node() + " for " + (agent->waits_for().empty() ? "nothing" : agent->waits_for()) + "; ";
    }
    return waits;
  }

  void check() const {
    auto merged = coordinator_.costs();
    check_collectives(merged);
    for (const auto& agent : agents_) {
      const auto own = agent->own_costs();
      for (const std::string& subject : agent->kept) {
        const bool is_lost = coordinator_.lost.contains(subject) || agent->lost_spooled.contains(subject);
        expect(merged.contains(subject) || is_lost, "what was in the spool is with the coordinator: " + subject);
        expect(own.contains(subject) || agent->lost_own.contains(subject),
               "and in the agent's own database: " + subject);
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
    const bool damaged = std::ranges::any_of(agents_, [](const auto& agent) { return agent->was_damaged; });
    expect(coordinator_.batches_lost() == 0 || coordinator_.was_set_back || damaged,
           "no batch is taken for lost that is not");
  }

  // Stamps may be lost with a link or a coordinator; a collective never counts twice.
  void check_collectives(std::map<std::string, std::uint64_t>& merged) const {
    const auto joined = merged.find(SimulatedCollectives::kSubject);
    if (joined == merged.end()) return;
    met("run in which collectives were joined");
    expect(joined->second <= collectives_.whole(), "a collective counts once: " + std::to_string(joined->second) +
                                                       " of " + std::to_string(collectives_.whole()));
    merged.erase(joined);
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
  GivenPlans given_;
  SimulatedRanks ranks_;
  SimulatedCollectives collectives_{time_};
  SimulatedCoordinator coordinator_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  bool troubled_ = true;
  Nanoseconds longest_gap_{0};  // between faults
  Ending ending_ = Ending::kStopped;
  int commands_ = 0;
};

void protocol(std::uint64_t seed) {
  Cluster(seed).run();
}

}  // namespace

}  // namespace trimtab::test

int main(int argc, char** argv) {
  spdlog::set_level(std::getenv("TRIMTAB_SIMULATION_LOG") != nullptr ? spdlog::level::info : spdlog::level::off);
  std::fputs(trimtab::test::kCovered, stdout);
  return trimtab::test::run_seeds(argc, argv, 1000, {{"protocol", trimtab::test::protocol}});
}
