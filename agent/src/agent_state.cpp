#include "agent_state.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "costs/collective_message.hpp"
#include "host/process_facts.hpp"
#include "net/tokens.hpp"
#include "node/host_metrics.hpp"
#include "probes/gpu_probe.hpp"
#include "processes/child_process.hpp"
#include "ranks/rank_end.hpp"
#include "records/activity_report.hpp"

namespace trimtab::agent {

namespace {

constexpr Nanoseconds kDrainPeriod = std::chrono::milliseconds(100);
constexpr Nanoseconds kActivityPeriod = std::chrono::seconds(1);
constexpr Nanoseconds kKillSwitchPeriod = std::chrono::milliseconds(500);
// A coordinator that is only started anew does itself what the kill switch asks for.
constexpr Nanoseconds kAlone = std::chrono::seconds(5);
constexpr Nanoseconds kReloadPeriod = std::chrono::seconds(5);
constexpr Nanoseconds kRetentionPeriod = std::chrono::seconds(1);
constexpr Nanoseconds kFlushPeriod = std::chrono::seconds(2);
constexpr int kRestForLook = 200;  // times as long as a look at the machine's processes took

std::optional<OwnUse> measure_own_use() {
  const auto self = host::read_process_facts("/", ::getpid());
  return self.ok() ? std::optional(OwnUse{self->resident_bytes, self->cpu_time}) : std::nullopt;
}

net::Rate rate_of(const Configuration& chosen) {
  return {chosen.max_message_rate, static_cast<std::uint64_t>(std::max(chosen.max_byte_rate, chosen.max_frame))};
}

net::LinkOptions link_options(const Configuration& chosen, const std::shared_ptr<net::Credentials>& tls,
                              std::function<std::string()> token) {
  net::LinkOptions options;
  options.host = chosen.coordinator_host;
  options.port = chosen.coordinator_port;
  options.max_frame_bytes = static_cast<std::size_t>(chosen.max_frame);
  options.max_rate = rate_of(chosen);
  options.max_queued_bytes = static_cast<std::size_t>(chosen.link_queue);
  options.silence_limit = chosen.silence_limit;
  options.tls = tls;
  options.token = std::move(token);
  return options;
}

}  // namespace

Agent::Implementation::Implementation(net::EventLoop& event_loop, const Configuration& chosen, NodeFacts node,
                                      AgentDatabase opened, std::uint64_t seed,
                                      std::shared_ptr<net::Credentials> certificates)
    : loop(event_loop),
      configuration(chosen),
      facts(std::move(node)),
      fingerprint_json(to_json(facts.fingerprint)),
      state(std::move(opened)),
      random(seed),
      kill_switch(kill_switch_path(chosen.state)),
      news([this](const wire::FromAgent& message) { return conversation.send(message); }),
      ranks(loop, RankLedger(state.database), chosen.state,
            [this](const LedgerRank& rank) { tell_end(rank, ranks.scratch(rank.id).log(rank.id.rank), news); }),
      jobs(chosen.state, facts.fingerprint),
      traces({[this](const wire::FromAgent& message) { return conversation.send_trace(message); },
              [this](const std::string& job) { return rings.rings_of(job); },
              [this](net::LocalPeerId peer, std::uint64_t until_ns) { rings.ask_full_detail(peer, until_ns); }, clock,
              chosen.node}),
      rings(clock, {chosen.ring_memory_of_process, chosen.ring_memory}),
      commands({loop,
                ranks,
                jobs,
                own_environment(),
                {chosen.socket, facts.inject_library, kill_switch_path(chosen.state), chosen.node},
                chosen.state,
                facts.memory,
                chosen.kill_grace,
                [this](const wire::FromAgent& message) { return conversation.send(message); },
                [this](const Job& job, const std::vector<Cost>& measurements) { measured(job, measurements); },
                [this](const RankIdentity& id) {
                  news.launched(id);
                  sessions.launching(id.job);
                },
                [this] { return kill_switch.thrown(); },
                nullptr,
                [this] {
                  look_at_others();
                  return [this, since = clock.monotonic()] {
                    look_at_others();
                    return others.disturbed_since(since);
                  };
                }},
               CommandLedger(state.database)),
      sessions({ranks, news, rings, jobs,
                [this](const std::string& job) {
                  return CostOwner{job, jobs.fingerprint_json(job)};
                },
                chosen.node, clock}),
      hardware_probe(probe_parts()),
      retention({chosen.state, chosen.job_retention, [this](const std::string& job) { return ranks.is_active(job); },
                 [this](const std::string& job) { return forget_job(job); }},
                clock.monotonic(), clock.wall()),
      conversation(conversation_parts(), coordinator_port()),
      disk_use(chosen.state, allowed_disk(chosen), [](const std::string& line) { spdlog::warn("{}", line); }),
      own_use({chosen.memory_budget, chosen.cpu_budget}, measure_own_use,
              [](const std::string& line) { spdlog::warn("{}", line); }),
      tls(std::move(certificates)),
      link(loop, link_options(chosen, tls, [this] { return token(); }),
           {[this] { conversation.opened(); }, [this](std::string_view frame) { conversation.received(frame); },
            [this](const std::string& reason) { conversation.closed(reason); }},
           seed) {}

CoordinatorConversation::Parts Agent::Implementation::conversation_parts() {
  return {configuration, fingerprint_json, facts.memory, clock, state, costs, news, ranks, commands, sessions, traces,
          hardware_probe, retention, [this] { return kill_switch.thrown(); },
          // Of the kernel: a machine that was copied while it ran has the same numbers to come as its copy.
          random_seed};
}

CoordinatorPort Agent::Implementation::coordinator_port() {
  return {[this](std::string frame) { return link.send(std::move(frame)); }, [this] { return link.queued_bytes(); },
          [this](const std::string& reason) { link.drop(reason); },
          [this](Nanoseconds period) {
            heartbeat.cancel();
            if (period.count() > 0) heartbeat = loop.every(period, [this] { conversation.beat(); });
          }};
}

HardwareProbe::Parts Agent::Implementation::probe_parts() {
  HardwareProbe::Parts parts{loop,
                             clock,
                             configuration.coordinator_host,
                             [this](const std::string& job) {
                               std::vector<NetworkRank> of_job;
                               for (const LedgerRank& rank : ranks.all()) {
                                 const bool meant = !rank.ended && rank.id.job == job && rank.id.variant.empty();
                                 if (meant) of_job.push_back({rank.id.rank, rank.pid});
                               }
                               return of_job;
                             },
                             {},
                             [this](const wire::FromAgent& message) { return conversation.send(message); }};
  if (facts.fingerprint.device["kind"] == "gpu") {
    parts.gpus = [this] { return sampler ? gpu_speeds(sampler->samples()) : std::vector<DeviceSpeed>(); };
  }
  return parts;
}

Status Agent::Implementation::open() {
  const auto send_costs = [this](const wire::FromAgent& message) { return conversation.send_costs(message); };
  TRIMTAB_TRY(auto store, CostStore::open(state.database, configuration.state + "/costs.db", state.instance,
                                          configuration.spool_limit, send_costs));
  costs.emplace(std::move(store));
  if (const std::uint64_t aside = costs->spool().aside(); aside > 0) {
    spdlog::warn(
        "{} batches of costs in the spool cannot be read by this release: they are kept aside in agent.db until one "
        "of a later release can",
        aside);
  }
  follow_kill_switch();
  TRIMTAB_TRY_STATUS(sessions.listen(loop, configuration.socket, rate_of(configuration)));
  TRIMTAB_TRY_STATUS(serve_metrics());
  TRIMTAB_TRY_STATUS(export_metrics());
  TRIMTAB_TRY_STATUS(ranks.adopt());
  if (::geteuid() == 0) {
    spdlog::warn(
        "this agent runs as root, and so will the ranks that it starts: run one as the user whose jobs they are "
        "(trimtab-agent@USER)");
  }
  if (facts.inject_library.empty()) {
    spdlog::warn("libtrimtab-inject.so was not found: ranges of the jobs are not recorded. Name it with --inject");
  }
  if (!facts.gpu_problem.empty()) {
    spdlog::warn("the GPUs of this node cannot be read: {}. 'trimtab doctor' says what to do", facts.gpu_problem);
  }
  start_sampling();
  rings.on_picture = [this](net::LocalPeerId peer, const StepPicture& picture) { sessions.pictured(peer, picture); };
  rings.on_passes = [this](net::LocalPeerId peer, const TimedStep& step) { sessions.passed(peer, step); };
  rings.trace_with(&traces);
  activity_timer = loop.every(kActivityPeriod, [this] { tell_activities(); });
  drain_timer = loop.every(kDrainPeriod, [this] { drain(); });
  flush_timer = loop.every(kFlushPeriod, [this] { look_after(); });
  tell_certificate_ends();
  reload_timer = loop.every(kReloadPeriod, [this] { reload(false); });
  disk_use.step(clock.monotonic());
  retention_timer = loop.every(kRetentionPeriod, [this] {
    retention.step(clock.monotonic(), clock.wall());
    disk_use.step(clock.monotonic());
    own_use.step(clock.monotonic(), ranks.running() > 0);
  });
  kill_switch_timer = loop.every(kKillSwitchPeriod, [this] {
    follow_kill_switch();
    bring_back_alone();
  });
  link.start();
  spdlog::info("agent {} (instance {}) offers {} devices, listens on {} and looks for the coordinator at {}:{}",
               configuration.node, state.instance, configuration.devices, configuration.socket,
               configuration.coordinator_host, configuration.coordinator_port);
  return {};
}

void Agent::Implementation::stop(std::function<void()> done) {
  if (std::exchange(stopping, true)) return;
  conversation.stop();
  commands.stop();
  hardware_probe.link_closed();
  const auto finish = [this, done = std::move(done)] {
    drain();
    flush_costs();
    sessions.stop();
    exporter.reset();
    link.stop();
    done();
  };
  if (!configuration.stop_ranks_on_exit) return finish();
  ranks.end_all(configuration.kill_grace, finish);
}

void Agent::Implementation::reload(bool in_any_case) {
  if (!tls) return;
  const auto fresh = tls->reload(clock.wall(), in_any_case);
  if (!fresh.ok()) {
    spdlog::error("the certificates stay as they were: {}", fresh.error().message);
  } else if (*fresh) {
    spdlog::info("the certificates have been read again");
  }
  tell_certificate_ends();
}

void Agent::Implementation::tell_certificate_ends() {
  if (!tls) return;
  if (const auto line = end_notice.next(*tls, clock.wall())) spdlog::warn("{}", *line);
}

std::string Agent::Implementation::token() {
  if (configuration.token_file.empty()) return "";
  const auto text = net::read_token(configuration.token_file);
  if (text.ok()) return *text;
  spdlog::error("the agent has no token: {}", text.error().message);
  return "";
}

void Agent::Implementation::drain() {
  const Nanoseconds now = clock.monotonic();
  if (last_drain.count() > 0) loop_lag = std::max(Nanoseconds(0), now - last_drain - kDrainPeriod);
  rings.drain();
  traces.tick();
  hardware_probe.tick();
  last_drain = clock.monotonic();
}

void Agent::Implementation::flush_costs() {
  rings.take(collected, others.disturbed());
  collected.flush(
      [this](const CostOrigin& origin, const std::vector<Cost>& part) { return costs->store(origin, part); });
  report_storage();
}

// What cannot be sent now is dropped: the other ranks' stamps will not wait for it.
void Agent::Implementation::send_collectives() {
  rings.take_collectives([this](const RankRings::RankCollectives& rank) {
    collective_times.add(rank.owner.job, rank.stamps);
    const bool sent = conversation.send(stamps_message(rank.owner, rank.rank, rank.stamps));
    (sent ? collectives_sent : collectives_unsent) += rank.stamps.size();
  });
}

void Agent::Implementation::tell_activities() {
  activities = rings.activities();
  if (!conversation.connected()) return;
  for (const auto& [id, activity] : activities) {
    wire::FromAgent message;
    *message.mutable_rank_activity() = to_wire(id, activity);
    conversation.send(message);
  }
}

void Agent::Implementation::follow_kill_switch() {
  if (!kill_switch.look()) return;
  if (kill_switch.thrown()) {
    spdlog::warn("the kill switch is thrown: ranks here take no plan but their incumbents until {} is removed",
                 kill_switch.path());
  } else {
    spdlog::info("the kill switch is released");
  }
  sessions.hold(kill_switch.thrown());
  conversation.beat();
}

void Agent::Implementation::bring_back_alone() {
  const Nanoseconds now = clock.monotonic();
  if (!kill_switch.thrown() || conversation.connected() || stopping) {
    if (std::exchange(alone_since, std::nullopt)) commands.leave_to_coordinator();
    return;
  }
  if (!alone_since) alone_since = now;
  if (now - *alone_since >= kAlone) commands.bring_back();
}

void Agent::Implementation::measured(const Job& job, const std::vector<Cost>& costs_of_job) {
  collected.add({job.name, jobs.fingerprint_json(job)}, costs_of_job);
  flush_costs();
}

// While something is measured. A machine with very many processes is looked at less often: a look reads each of them.
void Agent::Implementation::look_at_others() {
  const Nanoseconds begun = clock.monotonic();
  const auto machine = host::read_machine_use("/");
  if (!machine.ok()) return;
  std::set<pid_t> roots = rings.processes();
  roots.insert(getpid());
  const Nanoseconds own = time_of_trees(host::read_process_uses("/"), roots);
  const Nanoseconds end = clock.monotonic();
  others.add({begun, *machine, own});
  next_look = end + (end - begun) * kRestForLook;
}

void Agent::Implementation::look_after() {
  const bool measures = rings.size() > 0 || commands.running() > 0;
  if (!measures) {
    others = {};
  } else if (clock.monotonic() >= next_look) {
    look_at_others();
  }
  flush_costs();
  report_sources();
  follow_fingerprint();
  send_collectives();
  ranks.bound_logs(configuration.rank_log_limit);
  conversation.look_after();
}

Status Agent::Implementation::forget_job(const std::string& job) {
  TRIMTAB_TRY_STATUS(ranks.forget(job));
  news.forget(job);
  sessions.forget(job);
  jobs.forget(job);
  return {};
}

// Once per change, not every two seconds.
void Agent::Implementation::report_storage() {
  const auto& counters = costs->counters();
  if (std::exchange(spool_full_seen, counters.no_room) == 0 && counters.no_room > 0) {
    spdlog::warn("the spool is full (spool_limit = {}): costs wait in memory until the coordinator takes some",
                 format_bytes(configuration.spool_limit));
  }
  if (counters.failed == 0 || storage_failures_told == counters.failed) return;
  if (storage_failures_told == 0) {
    spdlog::error("costs cannot be stored: {}. They are kept in memory, and it is tried again", counters.last_error);
  }
  storage_failures_told = counters.failed;
}

void Agent::Implementation::start_sampling() {
  if (configuration.sample_period.count() == 0) return;
  auto sources = host::host_sources("/", configuration.nvml);
  if (facts.fingerprint.device["kind"] == "gpu") {
    watch.emplace(facts.fingerprint, host::gpu_node_probe(configuration.nvml));
    sources.push_back(watch->source());
  }
  sampler.emplace(std::move(sources), configuration.sample_period, clock);
}

// The coordinator hears of it in a new conversation, where one stands; each batch of costs carries its own fingerprint.
void Agent::Implementation::follow_fingerprint() {
  auto now = watch ? watch->take() : std::nullopt;
  if (!now) return;
  spdlog::warn(
      "this node's hardware has changed (MIG, MPS, limits or links): what is measured from now on belongs to "
      "fingerprint {} and no longer to {}",
      hash(*now), hash(facts.fingerprint));
  facts.fingerprint = std::move(*now);
  fingerprint_json = to_json(facts.fingerprint);
  jobs.node_changed(facts.fingerprint);
  if (link.open()) link.drop("this node's hardware has changed");
}

void Agent::Implementation::report_sources() {
  if (!sampler) return;
  for (const host::SourceReport& report : sampler->changes()) {
    const std::string line = source_line(report);
    if (!line.empty()) spdlog::warn("{}", line);
  }
}

Bytes Agent::Implementation::database_bytes() const {
  Bytes sum = 0;
  for (const char* file : {"/agent.db", "/costs.db"}) sum += bytes_on_disk(configuration.state + file).value_or(0);
  return sum;
}

void Agent::Implementation::add_budget_metrics(std::vector<net::Metric>& all) const {
  const auto gauge = [&all](const char* name, const char* help, double value, const std::string& labels) {
    all.push_back({std::string("trimtab_agent_") + name, false, help, value, labels});
  };
  const auto part = [&gauge](const char* what, Bytes bytes) {
    gauge("disk_bytes", "What stands in the agent's state directory, at the last look.", static_cast<double>(bytes),
          std::string("{what=\"") + what + "\"}");
  };
  if (const auto& use = disk_use.latest()) {
    part("databases", use->databases);
    part("logs", use->logs);
    part("scratch", use->scratch);
    part("snapshots", use->snapshots);
  }
  gauge("disk_budget_bytes", "What databases, logs and scratch of those may take before the agent warns.",
        static_cast<double>(disk_use.budget()), "");
  const bool ranks_run = ranks.running() > 0;
  gauge("memory_budget_bytes", "What it may take of memory before it warns, with ranks as they are.",
        static_cast<double>(own_use.budgets().allowed_memory(ranks_run)), "");
  gauge("cpu_budget_cores", "The same of processor time, over a minute.", own_use.budgets().allowed_cores(ranks_run),
        "");
  const auto over = [&gauge](const char* what, bool is_over) {
    gauge("over_budget", "1 while the agent takes more than its budget.", is_over ? 1 : 0,
          std::string("{what=\"") + what + "\"}");
  };
  over("disk", disk_use.over());
  over("memory", own_use.over_memory());
  over("cpu", own_use.over_cpu());
}

std::vector<net::Metric> Agent::Implementation::metrics() const {
  const auto& ring = rings.counters();
  const auto& store = costs->counters();
  const auto self = host::read_process_facts("/", ::getpid());
  const auto count = [](const char* name, const char* help, std::uint64_t value) {
    return net::Metric{std::string("trimtab_agent_") + name + "_total", true, help, static_cast<double>(value), ""};
  };
  const auto gauge = [](const char* name, const char* help, double value) {
    return net::Metric{std::string("trimtab_agent_") + name, false, help, value, ""};
  };
  std::vector<net::Metric> all{
      count("records", "Records read from rings.", ring.records),
      count("records_dropped", "Records that found their ring full.", ring.dropped),
      count("records_skipped", "Records that were claimed and never published.", ring.skipped),
      count("records_malformed", "Records that made no sense.", ring.malformed),
      count("record_names_dropped", "Range names that found their table full.", ring.names_dropped),
      count("ranges_untracked", "Ranges nested too deep to follow.", ring.untracked),
      count("rings_broken", "Rings that were given up.", ring.broken_rings),
      count("rings_refused", "Rings that were not taken: too many, too large, or no rings.", ring.refused_rings),
      count("collectives", "Collectives read from rings.", ring.collectives),
      count("collectives_fused", "Of those, run together with others: their times are not their own.",
            ring.collectives_fused),
      count("collectives_unfit", "Of those, without a communicator, a function or a second rank.",
            ring.collectives_unfit),
      count("collective_stamps_sent", "Sampled collectives sent to be joined over ranks.", collectives_sent),
      count("collective_stamps_dropped", "Sampled collectives dropped because the link was down.", collectives_unsent),
      count("kernels", "Kernels and graph launches that were folded.", ring.kernels),
      count("collectives_folded", "Collectives of NCCL's plugin that went into shares and slowdowns.",
            ring.collectives_folded),
      count("passes_unattributed", "Operators' passes and launches whose kernels could not be joined.",
            ring.unattributed),
      count("passes_crowded",
            "Operators' passes for which there was no room to wait for their kernels: others stand for them.",
            ring.crowded),
      count("windows_incomplete", "Stretches in which not all kernels were recorded.", ring.windows),
      count("intervals_late", "Kernels whose records came too late for the shares.", ring.late),
      count("overlaps", "Kernels and collectives that ran alone, or clearly beside something.", ring.overlaps),
      count("overlaps_unclear", "Those that ran beside several things, or beside one for a short time only.",
            ring.overlaps_unclear),
      count("overlaps_refused", "Those that took too long to be explained, or for which there was no room.",
            ring.overlaps_refused),
      count("slowdowns", "Values of slowdowns under overlap.", ring.slowdowns),
      count("slowdowns_unsure", "Values that did not become sure and were dropped.", ring.slowdowns_unsure),
      gauge("traces_running", "Traces that are being taken.", static_cast<double>(traces.running())),
      gauge("rings", "Rings that are read.", static_cast<double>(rings.size())),
      gauge("ring_bytes", "What those may take of memory.", static_cast<double>(rings.bytes())),
      count("frames", "Frames from training processes.", sessions.counters().frames),
      count("frames_refused", "Frames that broke the protocol.", sessions.counters().refused_frames),
      count("frames_delayed",
            "Times that a process' frames came faster than max_message_rate or max_byte_rate and were read later.",
            sessions.counters().delayed),
      count("link_frames_delayed", "The same of the coordinator's.", link.counters().delayed),
      count("link_frames_refused",
            "Frames of the coordinator that were too large, had too many entries or were no messages: the link ended.",
            link.counters().too_large + conversation.counters().frames_malformed),
      count("link_frames_unsent", "Messages that found link_queue full.", link.counters().refused),
      gauge("link_queue_bytes", "Bytes that wait for the coordinator to read.",
            static_cast<double>(link.queued_bytes())),
      count("metrics_requests_refused",
            "Requests for metrics that were refused: no TLS, no person's certificate, too many, too large, too slow, "
            "malformed.",
            requests_refused),
      count("processes_unknown", "Processes that this agent did not launch.", sessions.counters().unknown_processes),
      count("rank_reports_left_out", "Values that ranks reported under further names than the 32 that a job may have.",
            sessions.counters().reports_left_out),
      count("processes_refused",
            "Connections that were refused or ended: of other users' processes, too many of one process, without a "
            "whole frame in time, with too much of one that is not whole.",
            sessions.counters().refused_processes),
      count("batches_spooled", "Cost batches put into the spool.", store.spooled),
      count("batches_acknowledged", "Cost batches the coordinator has.", store.acknowledged),
      count("batches_refused", "Cost batches that the coordinator cannot ever take: they stay in costs.db alone.",
            conversation.counters().batches_refused),
      gauge("batches_aside", "Batches of costs that this release cannot read, kept in agent.db for one that can.",
            static_cast<double>(costs->spool().aside())),
      count("costs_dropped", "Values of costs for which neither the spool nor memory had room.", collected.dropped()),
      gauge("costs_waiting", "Costs in memory: new ones, and those that found the spool or the disk full.",
            static_cast<double>(collected.size())),
      count("batches_failed", "Attempts to store costs that failed.", store.failed),
      gauge("spool_bytes", "Bytes in the spool.", static_cast<double>(costs->spool().bytes())),
      gauge("spool_limit_bytes", "What the spool takes of passive costs; of benchmarks' it takes twice as much.",
            static_cast<double>(configuration.spool_limit)),
      count("steps_dropped", "Step events dropped while the coordinator was away.", news.steps_dropped()),
      count("rank_news_dropped", "News of ranks that have ended dropped because those of all took too much.",
            news.dropped()),
      count("jobs_removed", "Jobs whose directories here were removed, after job_retention.", retention.removed()),
      {"trimtab_agent_root", false, "1 where ranks run as root; for jobs of this tenant, of all where it is empty.",
       ::geteuid() == 0 ? 1.0 : 0.0,
       "{tenant=\"" + net::label_value(configuration.tenant == net::kEveryTenant ? "" : configuration.tenant) + "\"}"},
      gauge("ranks_running", "Ranks that this agent looks after.", static_cast<double>(ranks.running())),
      gauge("ranks_connected", "Ranks that are connected to the socket.", static_cast<double>(sessions.connected())),
      gauge("commands_running", "Commands that run.", static_cast<double>(commands.running())),
      gauge("coordinator_connected", "1 while the coordinator knows this agent.", conversation.connected() ? 1 : 0),
      gauge("kill_switch", "1 while the node's kill switch is thrown: ranks take no plan but their incumbents.",
            kill_switch.thrown() ? 1 : 0),
      gauge("database_bytes", "The agent's databases on disk, with their logs.", static_cast<double>(database_bytes())),
      gauge("idle_memory_budget_bytes", "What the agent may take while no rank runs.",
            static_cast<double>(own_use.budgets().allowed_memory(false))),
      gauge("idle_cpu_budget_cores", "The same of processor time.", own_use.budgets().allowed_cores(false)),
      gauge("loop_lag_seconds", "How late the loop was, lately.", std::chrono::duration<double>(loop_lag).count()),
  };
  if (self.ok()) {
    all.push_back(gauge("resident_bytes", "The agent's own memory.", static_cast<double>(self->resident_bytes)));
    all.push_back({"trimtab_agent_cpu_seconds_total", true, "The agent's own CPU time.",
                   std::chrono::duration<double>(self->cpu_time).count(), ""});
  }
  const auto append = [&all](std::vector<net::Metric> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  add_budget_metrics(all);
  append(net::certificate_ends("trimtab_agent", tls.get()));
  if (exporter) exporter->append(all);
  append(rank_process_metrics(ranks.all(), "/"));
  if (sampler) append(host_metrics(sampler->samples()));
  add_activity_metrics(activities, all);
  add_step_times(sessions.step_times(), all);
  collective_times.append(all);
  for (const auto& [key, value] : sessions.reports()) {
    const std::string labels = "{job=\"" + net::label_value(key.first.job) + "\",rank=\"" +
                               std::to_string(key.first.rank) + "\",name=\"" + net::label_value(key.second) + "\"}";
    all.push_back({"trimtab_agent_rank_report", false, "What ranks reported, by name.", value, labels});
  }
  return all;
}

}  // namespace trimtab::agent
