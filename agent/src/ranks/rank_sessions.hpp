#pragma once

// The training processes connected to the agent's socket: who each one is, what it says (checked), what it is told.
// A process counts as a rank of a job when this agent launched it, or where it says that its user did (a watched job);
// others are welcomed, their rings are folded by name, and what they say goes nowhere. Loop thread only.

#include "base/log_pace.hpp"
#include "commands/job_context.hpp"
#include "ranks/launched_ranks.hpp"
#include "ranks/plan_relay.hpp"
#include "ranks/rank_frame.hpp"
#include "ranks/rank_news.hpp"
#include "records/rank_rings.hpp"

namespace trimtab::agent {

// What of the socket's server the sessions need: a seam, so that tests can stand in for it.
struct LocalPort {
  std::function<void(net::LocalPeerId, std::string_view frame)> send;
  std::function<void(net::LocalPeerId)> close;
};

class RankSessions final {
 public:
  using Peer = net::LocalPeerId;
  struct Surroundings {
    LaunchedRanks& ranks;
    RankNews& news;
    RankRings& rings;
    JobContext& jobs;
    // Of passive costs of a job ("" = unknown).
    std::function<CostOwner(const std::string& job)> owner;
    std::string node;
    const Clock& clock;
  };
  // All parts must outlive it.
  explicit RankSessions(Surroundings surroundings) : surroundings_(std::move(surroundings)) {}

  // Listens; the error says why it cannot.
  // Of each process so many frames a second are read.
  [[nodiscard]] Status listen(net::EventLoop& loop, const std::string& path, const net::Rate& max_rate = {});
  void stop() {
    if (server_) server_->stop();
  }

  // Where something else than listen() brings the connections: what it is to be told, and what it tells.
  void serve(LocalPort port) { port_ = std::move(port); }
  void opened(Peer peer, pid_t pid) { sessions_[peer].pid = pid; }
  void received(Peer peer, std::string_view json, int descriptor);
  void closed(Peer peer);

  // From the coordinator, for the job's ranks on this node.
  void propose(const std::string& job, std::uint64_t epoch, const std::string& plan_json, bool incumbent);
  void commit(const std::string& job, std::uint64_t epoch, std::int64_t step);
  void cancel(const std::string& job, std::uint64_t epoch) { send_to_job(job, relay_.cancel(job, epoch)); }
  void stop_job(const std::string& job, std::int64_t step) { send_to_job(job, relay_.stop(job, step)); }
  // An empty request: it is not wanted any more. For ranks that cannot, or are not connected, the agent answers.
  void measure_again(const std::string& job, std::uint64_t number, const std::string& request_json);
  void launching(const std::string& job) { relay_.forget(job); }
  void forget(const std::string& job) {
    relay_.forget(job);
    report_names_.erase(job);
  }
  // No other jobs are unfinished: of those of which nothing runs here, plans and models go, which are read again from
  // their files where somebody needs them after all.
  void unfinished(const std::set<std::string>& jobs);

  // While the kill switch is thrown ranks hear of incumbents alone; what they have heard of trials' plans is cancelled.
  void hold(bool held);

  // A rank's ring has given the picture of a step.
  void pictured(net::LocalPeerId peer, const StepPicture& picture);
  void passed(net::LocalPeerId peer, const TimedStep& step);

  struct Counters {
    std::uint64_t frames = 0;
    std::uint64_t refused_frames = 0;
    std::uint64_t unknown_processes = 0;
    std::uint64_t refused_watched = 0;    // said to be a watched rank, and were not taken for it
    std::uint64_t refused_processes = 0;  // connections: of other users, or beyond net::LocalLimits
    std::uint64_t delayed = 0;            // times that frames came too fast
    std::uint64_t reports_left_out = 0;   // values under further names than a job may have
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t connected() const;
  // The latest values that ranks reported, by rank and name, while they are connected: of a job its first 32 names.
  using Reports = std::map<std::pair<RankIdentity, std::string>, double>;
  [[nodiscard]] const Reports& reports() const { return reports_; }
  // How long the steps of ranks that are connected took, as they say.
  using StepTimes = std::map<RankIdentity, net::Histogram>;
  // Steps that a rank has told of while it is connected.
  [[nodiscard]] std::uint64_t steps_of(const RankIdentity& id) const;
  void append_metrics(std::vector<net::Metric>& into) const;

 private:
  struct Session {
    pid_t pid = 0;
    bool greeted = false;
    bool is_ring = false;
    bool measures = false;
    std::optional<LedgerRank> launcher;  // where it is one
    std::optional<LedgerRank> rank;      // where we launched it, or watch it
  };

  Status handle(Peer peer, Session& session, const RankFrame& frame, int& descriptor);
  Status greet(Peer peer, Session& session, const HelloFrame& hello);
  Status greet_watched(Peer peer, Session& session, const HelloFrame& hello);
  void bind_rings(const LedgerRank& rank);
  Status greet_launcher(Session& session, const LauncherFrame& launcher);
  Status fill_slot(Peer peer, Session& session, const SlotFrame& slot);
  Status say_of_submission(const Session& session, const SubmissionFrame& frame);
  Status take_ring(Peer peer, Session& session, const RingFrame& ring, int& descriptor);
  void say(const Session& session, const RankFrame& frame);
  void said_report(const Session& session, const ReportFrame& frame);
  void say_refused(pid_t pid, const char* what, const std::string& reason);
  void say_not_steered(pid_t pid, const HelloFrame& hello);
  [[nodiscard]] bool is_connected(const RankIdentity& id) const;
  [[nodiscard]] bool measures(const RankIdentity& id) const;
  void refuse(const std::string& job, std::uint64_t epoch, const char* reason, const std::string& message);
  void remember_plan(const std::string& job, std::uint64_t epoch, const std::string& plan_json);
  void tell(const Session& session, wire::RankEvent event);
  void send_to_job(const std::string& job, std::string_view frame);
  void give_context(const std::string& job, std::uint64_t epoch);
  void give_context(Peer peer, const Session& session, std::uint64_t epoch, bool now);

  Surroundings surroundings_;
  std::unique_ptr<net::LocalServer> server_;  // nothing: serve() was called
  LocalPort port_;
  std::map<Peer, Session> sessions_;
  PlanRelay relay_;
  bool held_ = false;
  Counters counters_;
  LogPace refusals_;
  LogPace strangers_;
  Reports reports_;
  std::map<std::string, std::set<std::string>> report_names_;  // by job, also of ranks that are gone
  StepTimes step_times_;
};

}  // namespace trimtab::agent
