#pragma once

// The agent's side of the conversation with the coordinator (schema/wire/agent.proto): what a connection's messages do
// to the agent's parts, and what of these is said. Without a socket, timer or process of its own. Loop thread only.
// What an agent's hello says of its ranks and of its batches of costs, from what is on its disk.

#include "agent/configuration.hpp"
#include "commands/command_runner.hpp"
#include "commands/job_retention.hpp"
#include "costs/cost_store.hpp"
#include "probes/hardware_probe.hpp"
#include "ranks/rank_sessions.hpp"

namespace trimtab::agent {

// What of the link the conversation needs: a seam, so that tests can stand in for it.
struct CoordinatorPort {
  std::function<bool(std::string frame)> send;          // false: not open, or its queue is full
  std::function<std::size_t()> queued_bytes;            // that wait to be sent
  std::function<void(const std::string& reason)> drop;  // ends the connection; closed() is called, now or soon
  // Calls beat() so often from now on; 0 = no more.
  std::function<void(Nanoseconds period)> beat_every;
};

class CoordinatorConversation final {
 public:
  // All must outlive it.
  struct Surroundings {
    const Configuration& configuration;
    const std::string& fingerprint_json;  // of the node, as it is now
    Bytes memory = 0;                     // of a device
    const Clock& clock;
    AgentDatabase& state;
    std::optional<CostStore>& costs;  // there before the first connection
    RankNews& news;
    LaunchedRanks& ranks;
    CommandRunner& commands;
    RankSessions& sessions;
    TraceRecorder& traces;
    HardwareProbe& probe;
    JobRetention& retention;
    std::function<bool()> kill_switch;    // it is thrown
    std::function<std::uint64_t()> seed;  // of a new instance's name
  };
  CoordinatorConversation(Surroundings surroundings, CoordinatorPort port)
      : surroundings_(std::move(surroundings)), port_(std::move(port)) {}

  // Of the link.
  void opened() { port_.send(hello().SerializeAsString()); }
  void closed(const std::string& reason);
  void received(std::string_view frame);

  void beat();
  // Sends again what could not be sent or waits for its answer for too long, and renews the instance where that is due.
  // To be called every few seconds.
  void look_after();
  // From now on nothing new is begun.
  void stop() { stopping_ = true; }

  // Between the coordinator's welcome and the connection's end.
  [[nodiscard]] bool connected() const { return welcome_; }
  // False before the coordinator has welcomed us, and when the link's queue is full.
  bool send(const wire::FromAgent& message) { return welcome_ && port_.send(message.SerializeAsString()); }
  // Of what must not stand in the way of everything else: also false when much waits to be sent.
  bool send_costs(const wire::FromAgent& message);
  bool send_trace(const wire::FromAgent& message);

  struct Counters {
    std::uint64_t batches_refused = 0;
    std::uint64_t frames_malformed = 0;
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  [[nodiscard]] wire::FromAgent hello() const;
  void refuse_frame(const std::string& reason);
  void dispatch(const wire::ToAgent& message);
  void welcomed(const wire::Welcome& welcome);
  void refused(const wire::Refused& refusal);
  void batch_answered(const wire::BatchAck& answer);
  void told_unfinished(const wire::UnfinishedJobs& unfinished);
  [[nodiscard]] Status follow_numbers(const wire::Welcome& message);
  void renew_instance();

  Surroundings surroundings_;
  CoordinatorPort port_;
  bool welcome_ = false;
  bool stopping_ = false;
  std::uint64_t answered_ns_ = 0;  // the coordinator's CLOCK_REALTIME in its last answer to a heartbeat; 0 = none came
  std::uint64_t heard_ns_ = 0;     // ours when that came
  std::string last_reason_;        // for which there was no link
  Counters counters_;
};

// What an agent's hello says of its ranks and of its batches of costs, from what is on its disk.

// Those that run, and of each job the latest launch, over or not.
void say_ranks(const std::vector<LedgerRank>& ranks, wire::Hello& hello);
// After say_ranks(): these jobs have files here; those that it has not named are launches of number 0, up to
// kMostLaunches (schema/frame_bounds.hpp).
void say_kept(const std::set<std::string>& jobs, wire::Hello& hello);

// What a coordinator needs that was set back to an older copy of its state, or whose agent was.
[[nodiscard]] Status say_numbers(const Database& database, wire::Hello& hello);

// Those that run, and of each job the latest launch, over or not.
void say_ranks(const std::vector<LedgerRank>& ranks, wire::Hello& hello);
// After say_ranks(): these jobs have files here; those that it has not named are launches of number 0, up to
// kMostLaunches (schema/frame_bounds.hpp).
void say_kept(const std::set<std::string>& jobs, wire::Hello& hello);

// What a coordinator needs that was set back to an older copy of its state, or whose agent was.
[[nodiscard]] Status say_numbers(const Database& database, wire::Hello& hello);

}  // namespace trimtab::agent
