#pragma once

// The agent's parts and how they are joined. Loop thread only.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/agent.hpp"
#include "agent_database.hpp"
#include "base/clock.hpp"
#include "collective_times.hpp"
#include "command_runner.hpp"
#include "cost_store.hpp"
#include "disk_use.hpp"
#include "hardware_probe.hpp"
#include "host/fingerprint_watch.hpp"
#include "host/sampler.hpp"
#include "job_context.hpp"
#include "job_retention.hpp"
#include "kill_switch.hpp"
#include "launched_ranks.hpp"
#include "net/link.hpp"
#include "net/metric_text.hpp"
#include "net/otlp_exporter.hpp"
#include "net/server.hpp"
#include "node_facts.hpp"
#include "opaque_jobs.hpp"
#include "rank_news.hpp"
#include "rank_rings.hpp"
#include "rank_sessions.hpp"
#include "trace_recorder.hpp"

namespace trimtab::agent {

struct Agent::Implementation {
  Implementation(net::EventLoop& event_loop, const Configuration& chosen, NodeFacts node, AgentDatabase opened,
                 std::uint64_t seed, std::shared_ptr<net::Credentials> certificates);

  Status open();
  void stop(std::function<void()> done);
  void reload(bool in_any_case);
  // The agent's own, read anew; empty where there is none.
  [[nodiscard]] std::string token();

  // The link.
  void link_opened();
  void link_closed(const std::string& reason);
  void received(std::string_view frame);
  void refuse_frame(const std::string& reason);
  void welcomed(const wire::Welcome& welcome);
  void told_unfinished(const wire::UnfinishedJobs& unfinished);
  [[nodiscard]] Status follow_numbers(const wire::Welcome& message);
  void refused(const wire::Refused& refusal);
  void dispatch(const wire::ToAgent& message);
  void batch_answered(const wire::BatchAck& answer);
  void beat();
  // False before the coordinator has welcomed us, and when the link's queue is full.
  bool send(const wire::FromAgent& message);
  [[nodiscard]] wire::FromAgent hello() const;
  [[nodiscard]] HardwareProbe::Parts probe_parts();

  // Measurements.
  void drain();
  void flush_costs();
  void send_collectives();
  void measured(const Job& job, const std::vector<Cost>& costs);
  void rank_ended(const LedgerRank& rank);
  void launcher_ended(const LedgerRank& launcher);
  void look_after();
  void renew_instance();
  void report_storage();
  void start_sampling();
  void report_sources();
  void follow_fingerprint();
  void tell_activities();
  void follow_kill_switch();
  void bring_back_alone();

  Status forget_job(const std::string& job);

  Status serve_metrics();
  void refuse_request(std::string_view kind, const std::string& address, const std::string& reason);
  Status export_metrics();
  // What the machine's users may read where `names_jobs` is false.
  [[nodiscard]] std::vector<net::Metric> page(bool names_jobs) const;
  [[nodiscard]] std::vector<net::Metric> metrics() const;
  [[nodiscard]] Bytes database_bytes() const;
  void add_disk_metrics(std::vector<net::Metric>& all) const;

  net::EventLoop& loop;
  Configuration configuration;
  NodeFacts facts;
  SystemClock clock;
  std::string fingerprint_json;
  AgentDatabase state;
  Random random;
  std::optional<CostStore> costs;
  CostCollection collected;
  KillSwitch kill_switch;
  RankNews news;
  LaunchedRanks ranks;
  JobContext jobs;
  TraceRecorder traces;
  RankRings rings;
  CommandRunner commands;
  RankSessions sessions;
  HardwareProbe hardware_probe;
  JobRetention retention;
  DiskUseWatch disk_use;
  std::optional<host::FingerprintWatch> watch;  // of a GPU node: it can change while the agent runs
  std::optional<host::Sampler> sampler;
  std::optional<OpaqueJobs> opaque_jobs;  // where there is a page that does not name them
  std::unique_ptr<net::Server> metrics_server;
  std::unique_ptr<net::OtlpExporter> exporter;  // nothing: metrics are posted nowhere
  std::shared_ptr<net::Credentials> tls;
  net::Link link;
  bool welcome = false;
  std::uint64_t answered_ns = 0;  // the coordinator's CLOCK_REALTIME in its last answer to a heartbeat; 0 = none came
  std::uint64_t heard_ns = 0;     // ours when that came
  std::optional<Nanoseconds> alone_since;  // the kill switch is thrown and no coordinator is there
  bool stopping = false;
  std::string last_link_reason;
  std::uint64_t storage_failures_told = 0;
  std::uint64_t spool_full_seen = 0;
  CollectiveTimes collective_times;
  std::uint64_t collectives_sent = 0;
  std::uint64_t collectives_unsent = 0;
  std::uint64_t batches_refused = 0;
  std::uint64_t frames_malformed = 0;  // from the coordinator
  std::uint64_t requests_refused = 0;  // of metrics
  LogPace requests_pace;               // of their lines in the log
  Nanoseconds last_drain{0};
  Nanoseconds loop_lag{0};
  net::EventLoop::Timer heartbeat;
  net::EventLoop::Timer drain_timer;
  net::EventLoop::Timer flush_timer;
  net::EventLoop::Timer activity_timer;
  net::EventLoop::Timer kill_switch_timer;
  net::EventLoop::Timer reload_timer;
  net::EventLoop::Timer retention_timer;
  std::map<RankIdentity, RankActivity> activities;  // of the ranks that run, as last told
};

}  // namespace trimtab::agent
