#pragma once

// The agent's parts and how they are joined. Loop thread only.

#include "agent/agent.hpp"
#include "commands/checkpoint_watch.hpp"
#include "coordinator_conversation.hpp"
#include "host/fingerprint_probe.hpp"
#include "host/link_watch.hpp"
#include "host/sampler.hpp"
#include "net/link.hpp"
#include "net/otlp_exporter.hpp"
#include "node/gpu_clocks.hpp"
#include "node/kill_switch.hpp"
#include "node/metrics_page.hpp"
#include "node/others_use.hpp"
#include "node/own_use.hpp"
#include "ranks/signs_of_life.hpp"
#include "schema/storage/storage_watch.hpp"

namespace trimtab::agent {

// What the agent says of its node before it has measured anything.
struct NodeFacts {
  Fingerprint fingerprint;
  Bytes memory = 0;            // of one device
  std::string inject_library;  // empty where there is none
  std::string gpu_problem;     // why NVML does not work although there are GPUs; empty when all is well
};

struct WatchedCheckpoint {
  std::uint64_t launch = 0;
  std::unique_ptr<CheckpointWatch> watch;  // nothing: this launch's is not watched
};

struct Agent::Implementation {
  Implementation(net::EventLoop& event_loop, const Configuration& chosen, NodeFacts node, AgentDatabase opened,
                 std::uint64_t seed, std::shared_ptr<net::Credentials> certificates);

  Status open();
  void stop(std::function<void()> done);
  void reload(bool in_any_case);
  void tell_certificate_ends();
  // The agent's own, read anew; empty where there is none.
  [[nodiscard]] std::string token();

  [[nodiscard]] CoordinatorConversation::Surroundings conversation_surroundings();
  [[nodiscard]] CoordinatorPort coordinator_port();
  [[nodiscard]] HardwareProbe::Surroundings probe_surroundings();

  // Measurements.
  void drain();
  void flush_costs();
  void send_collectives();
  void measured(const Job& job, const std::vector<Cost>& costs);
  void look_at_others();
  void look_at_gpus();
  void look_after();
  void tell_signs_of_life();
  void watch_checkpoints();
  void watch_checkpoint(const LedgerRank& rank);
  void report_storage();
  void start_sampling();
  void report_sources();
  void follow_fingerprint();
  void tell_activities();
  void tell_unknown_cupti();
  void follow_kill_switch();
  void bring_back_alone();

  Status forget_job(const std::string& job);

  Status serve_metrics();
  void refuse_request(std::string_view kind, const std::string& address, const std::string& reason);
  Status export_metrics();
  // What the machine's users may read where `names_jobs` is false.
  [[nodiscard]] std::string page(bool names_jobs) const;
  [[nodiscard]] std::vector<net::Metric> metrics() const;
  void append_links(std::vector<net::Metric>& all) const;
  void append_process(std::vector<net::Metric>& all) const;

  net::EventLoop& loop;
  Configuration configuration;
  NodeFacts facts;
  SystemClock clock;
  std::string fingerprint_json;
  AgentDatabase state;
  Random random;
  std::optional<CostStore> costs;
  StorageWatch storage;
  CostCollection collected;
  KillSwitch kill_switch;
  RankNews news;
  LaunchedRanks ranks;
  JobContext jobs;
  TraceRecorder traces;
  RankRings rings;
  OthersUse others;
  GpuClocks gpu_clocks;
  Nanoseconds next_look{0};
  CommandRunner commands;
  RankSessions sessions;
  SignsOfLife signs_of_life;
  std::map<RankIdentity, WatchedCheckpoint> checkpoints;  // by the lowest rank of a job's own launch here
  Nanoseconds next_signs{0};
  HardwareProbe hardware_probe;
  JobRetention retention;
  CoordinatorConversation conversation;
  DiskUseWatch disk_use;
  OwnUseWatch own_use;
  std::optional<host::FingerprintWatch> watch;  // of a GPU node: it can change while the agent runs
  std::optional<host::Sampler> sampler;
  host::LinkWatch links;
  std::set<std::string> faults_told;
  std::optional<OpaqueJobs> opaque_jobs;    // where there is a page that does not name them
  std::optional<MetricsPage> metrics_page;  // where somebody may ask for it
  std::unique_ptr<net::Server> metrics_server;
  std::unique_ptr<net::OtlpExporter> exporter;  // nothing: metrics are posted nowhere
  std::shared_ptr<net::Credentials> tls;
  net::EndNotice end_notice;  // of its certificates
  net::Link link;
  std::optional<Nanoseconds> alone_since;  // the kill switch is thrown and no coordinator is there
  bool stopping = false;
  std::uint64_t storage_failures_told = 0;
  std::uint64_t spool_full_seen = 0;
  CollectiveTimes collective_times;
  std::uint64_t collectives_sent = 0;
  std::uint64_t collectives_unsent = 0;
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
  bool unknown_cupti_told = false;
  std::map<RankIdentity, RankActivity> activities;  // of the ranks that run, as last told
};

}  // namespace trimtab::agent
