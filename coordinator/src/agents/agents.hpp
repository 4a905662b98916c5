#pragma once

// The agents' side of the port: frames in, answers out. Event loop's thread only.

#include <string_view>

#include "base/log_pace.hpp"
#include "costs/collective_intake.hpp"
#include "costs/cost_intake.hpp"
#include "jobs/unfinished_jobs.hpp"
#include "net/server.hpp"

namespace trimtab::coordinator {

// What of the server the agents' side needs: a seam, so that tests can stand in for it.
struct PeerPort {
  std::function<bool(std::uint64_t peer, std::string frame)> send;
  std::function<void(std::uint64_t peer)> close;
  // Whose jobs run there ("": everybody's) of an agent that says it is this node and serves this tenant, or why it can
  // be neither (Access::check_node); unset: as it says.
  std::function<Result<std::string>(std::uint64_t peer, const std::string& node, const std::string& tenant)>
      check_node = {};
  // Calls commit() within some milliseconds, so that costs of other agents come meanwhile; unset: nothing waits.
  std::function<void()> commit_soon = {};
  // What has come from it so far, read or not; unset: only whole messages show that a node lives.
  std::function<std::uint64_t(std::uint64_t peer)> received_bytes = {};
  // Its hello is accepted; unset: nobody waits for that.
  std::function<void(std::uint64_t peer)> introduced = {};
  // Of its connection; unset: not known.
  std::function<net::PeerAddresses(std::uint64_t peer)> addresses = {};
  // Whose token it has shown (Access::agent_owner); unset: nobody's.
  std::function<std::string(std::uint64_t peer)> owner = {};
};

struct AuditEntry;
struct Services;

class Agents {
 public:
  Agents(Services& services, JobTable& jobs, PeerPort port);
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  void message(std::uint64_t peer, std::string_view frame);
  // How long this peer's next message is to wait: its node's tenant has had its part of the loop's time (LoopTime).
  // Those of nodes that are everybody's wait for nothing.
  [[nodiscard]] Nanoseconds wait_of(std::uint64_t peer) const;
  void closed(std::uint64_t peer, const std::string& reason);
  // Nodes that have been silent for too long are lost to their jobs and traces; what ranks of jobs that are over waited
  // for is forgotten.
  void tick();
  // Tokens have changed: nodes that would be refused now are given no further job.
  void check_nodes();
  // What this peer has shown does not let it in any more: it is told so and closed, and its node is lost to its jobs.
  void revoke(std::uint64_t peer, const std::string& reason);
  // Stores the costs that wait for it, and acknowledges them.
  void commit() { costs_.commit(); }
  // The last costs are stored.
  void stop();
  bool send(const std::string& node, const wire::ToAgent& message);

 private:
  void take(std::uint64_t peer, std::string_view frame);
  void dispatch(std::uint64_t peer, std::string_view frame, const wire::FromAgent& from);
  // Whose nodes' messages are charged to him; nothing: nobody's.
  [[nodiscard]] const std::string* charged_tenant(std::uint64_t peer) const;
  void hello(std::uint64_t peer, const wire::Hello& hello);
  void tell_of_return(JobRun& job, const wire::Hello& hello, const Member& here, std::uint64_t believed);
  enum class Numbers { kAgree, kClash, kUnknown };
  Numbers compare_batches(std::uint64_t peer, const wire::Hello& hello);
  Numbers judge(const wire::Hello& hello, const OriginFindings& found, bool is_copy);
  void compare_again();
  // The highest launch that agents are believed to have had.
  [[nodiscard]] std::uint64_t launches_believed() const;
  void take_launches(const wire::Hello& hello, std::uint64_t believed);
  void end_strays(const wire::Hello& hello, std::uint64_t believed);
  [[nodiscard]] std::optional<std::uint64_t> stray_command(const std::string& node, const JobRun& job,
                                                           const std::string& tag);
  void forget(const std::string& node);
  // To all agents, where it has changed.
  void tell_unfinished();
  void tell_unfinished(const Member& member);
  // What goes on there without its agent.
  void node_gone(const std::string& node);
  void heartbeat(std::uint64_t peer, const Member& member, const wire::Heartbeat& heartbeat);
  void said_kill_switch(const Member& member, bool thrown);
  void take_kill_switches();
  void note_kill_switch(const Member& member);
  void note(const AuditEntry& entry);
  void cost_batch(std::uint64_t peer, const Member& member, const wire::CostBatch& batch);
  void batch_stored(const BatchAnswer& stored);
  [[nodiscard]] std::optional<CommandOwner> own_command(const Member& member, std::uint64_t id);
  void command_moved(const Member& member, const wire::CommandProgress& moved);
  void command_done(const Member& member, const wire::CommandDone& done);
  // Whether the node has this rank; of another's it is said that the node spoke of it, as `what`.
  [[nodiscard]] bool may_tell(const Member& member, const JobRun& job, std::uint32_t rank, const char* what);
  [[nodiscard]] bool may_tell(const Member& member, const JobRun& job, const wire::RankEvent& event);
  void rank_event(const Member& member, const wire::RankEvent& event);
  void watched(const Member& member, const RankWatched& rank, const std::string& job);
  void tell_card(const Member& member, JobRun& job, const wire::RankEvent& event);
  void facts(const Member& member, const wire::RankEvent& event);
  void timeline(const Member& member, const wire::RankEvent& event);
  void rank_activity(const Member& member, const wire::RankActivity& activity);
  void trace_chunk(const Member& member, const wire::TraceChunk& chunk, std::string_view frame);
  // Counts and says that a node spoke of what is another's.
  void foreign(const Member& member, const char* what, const std::string& whose);
  void collective_stamps(const Member& member, const wire::CollectiveStamps& stamps);
  void refuse_frame(std::uint64_t peer, const std::string& reason);
  // `for_log`: what is not the peer's to know.
  void refuse(std::uint64_t peer, const std::string& reason, const char* kind = "agent",
              const std::string& for_log = "");
  [[nodiscard]] std::string name_of(std::uint64_t peer) const;  // for the log
  // Whether a line that a node can cause for ever is to be written, after how many were left out.
  [[nodiscard]] bool says(LogPace& pace);
  void reply(std::uint64_t peer, const wire::ToAgent& message);

  Services& services_;
  JobTable& jobs_;
  PeerPort port_;
  CollectiveIntake collectives_;
  CostIntake costs_;
  UnfinishedJobs unfinished_;
  std::uint64_t launches_at_start_ = 0;  // that the state knew of
  struct KillSwitch {
    Nanoseconds at{0};  // monotonic: when it was last taken
    bool said = false;
  };
  std::map<std::string, KillSwitch> switches_;  // by node: what changed a moment ago
  std::map<std::string, LogPace> hellos_;       // by node: each is work for every job
  // Commands that end strays and have no answer yet (an agent answers each, whatever it finds), by run and tag.
  struct Strays {
    std::map<std::pair<std::int64_t, std::string>, std::uint64_t> open;
    Nanoseconds since{0};   // monotonic
    std::size_t given = 0;  // new ones since then
  };
  std::map<std::string, Strays> strays_;  // by node
  LogPace stray_lines_;
  LogPace refused_batches_;
  std::map<std::uint64_t, OriginNumbers> uncompared_;  // by peer: the database could not be asked
  std::unique_ptr<wire::FromAgent> spare_;             // the last message: its memory serves the next
};

}  // namespace trimtab::coordinator
