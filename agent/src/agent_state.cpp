#include "agent_state.hpp"

#include <spdlog/spdlog.h>

#include "base/numbers.hpp"
#include "host/process_facts.hpp"
#include "net/tokens.hpp"
#include "node/host_metrics.hpp"
#include "records/activity_report.hpp"
#include "schema/api/unusual_hardware.hpp"

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
constexpr Nanoseconds kSignsPeriod = std::chrono::seconds(5);
constexpr int kRestForSigns = 50;  // the same, where a rank is silent: somebody may wait for a sign
constexpr int kRestForLook = 200;  // times as long as a look at the machine's processes took

void set_price(wire::CopyPrice& told, const CopyPrice& price) {
  told.set_files(price.contents.files);
  told.set_bytes(price.contents.bytes);
  told.set_seconds(price.seconds);
  told.set_shared(price.shared);
  told.set_store(price.store);
  told.set_refused(price.refused);
}

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
  options.listener = {chosen.coordinator_user, "coordinator_user"};
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
      storage([](bool well, const std::string& line) {
        spdlog::log(well ? spdlog::level::info : spdlog::level::err, "{}", line);
      }),
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
                    look_at_gpus();
                    return Disturbance{others.disturbed_since(since), gpu_clocks.disturbed_since(since)};
                  };
                },
                [this](const std::string& job, const std::string& tenant) {
                  return retention.give_to(tenant, job, clock.wall());
                }},
               CommandLedger(state.database)),
      sessions({ranks, news, rings, jobs,
                [this](const std::string& job) {
                  return CostOwner{job, jobs.fingerprint_json(job)};
                },
                chosen.node, clock}),
      hardware_probe(probe_surroundings()),
      retention({chosen.state, chosen.job_retention, [this](const std::string& job) { return ranks.is_active(job); },
                 [this](const std::string& job) { return forget_job(job); }},
                clock.monotonic(), clock.wall()),
      conversation(conversation_surroundings(), coordinator_port()),
      disk_use(chosen.state, allowed_disk(chosen), [](const std::string& line) { spdlog::warn("{}", line); }),
      own_use({chosen.memory_budget, chosen.cpu_budget}, measure_own_use,
              [](const std::string& line) { spdlog::warn("{}", line); }),
      tls(std::move(certificates)),
      link(loop, link_options(chosen, tls, [this] { return token(); }),
           {[this] { conversation.opened(); }, [this](std::string_view frame) { conversation.received(frame); },
            [this](const std::string& reason) { conversation.closed(reason); }},
           seed) {}

CoordinatorConversation::Surroundings Agent::Implementation::conversation_surroundings() {
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

HardwareProbe::Surroundings Agent::Implementation::probe_surroundings() {
  HardwareProbe::Surroundings surroundings{
      loop,
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
    surroundings.gpus = [this] { return sampler ? gpu_speeds(sampler->samples()) : std::vector<DeviceSpeed>(); };
  }
  surroundings.faults = [this] { return links.faults(); };
  return surroundings;
}

Status Agent::Implementation::open() {
  const auto send_costs = [this](const wire::FromAgent& message) { return conversation.send_costs(message); };
  TRIMTAB_TRY(auto store, CostStore::open(state.database, configuration.state + "/costs.db", state.instance,
                                          configuration.spool_limit, send_costs));
  costs.emplace(std::move(store));
  storage.add("state", [this] { return state.database.look_after(); });
  storage.add("costs", [this] { return costs->look_after_costs(); });
  storage.tick();
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
  for (const std::string& one : unusual_hardware(facts.fingerprint)) spdlog::warn("on this node {}", one);
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
    ranks.prepare_next(clock.monotonic());
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
    link.judge_again();
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
  loop.assert_on_loop();
  const Nanoseconds now = clock.monotonic();
  if (last_drain.count() > 0) loop_lag = std::max(Nanoseconds(0), now - last_drain - kDrainPeriod);
  rings.drain();
  traces.tick();
  hardware_probe.tick();
  last_drain = clock.monotonic();
}

void Agent::Implementation::flush_costs() {
  loop.assert_on_loop();
  rings.take(collected, {others.disturbed(), gpu_clocks.disturbed_since(clock.monotonic() - GpuClocks::kWindow)});
  collected.flush(
      [this](const CostOrigin& origin, const std::vector<Cost>& part) { return costs->store(origin, part); });
  if (collected.empty()) rings.kept();
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
  tell_unknown_cupti();
  if (!conversation.connected()) return;
  for (const auto& [id, activity] : activities) {
    wire::FromAgent message;
    *message.mutable_rank_activity() = to_wire(id, activity);
    conversation.send(message);
  }
}

void Agent::Implementation::tell_unknown_cupti() {
  const auto is_unknown = [](const auto& one) { return one.second.collector.cupti_state == record::kCuptiTooNew; };
  if (unknown_cupti_told || std::ranges::none_of(activities, is_unknown)) return;
  unknown_cupti_told = true;
  spdlog::warn("ranks here have {}", kUnknownCupti);
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

void Agent::Implementation::look_at_gpus() {
  if (sampler) gpu_clocks.add(gpu_speeds(sampler->samples()), clock.monotonic());
}

void Agent::Implementation::look_after() {
  loop.assert_on_loop();
  const bool measures = rings.size() > 0 || commands.running() > 0;
  if (!measures) {
    others = {};
  } else if (clock.monotonic() >= next_look) {
    look_at_others();
  }
  if (measures) look_at_gpus();
  storage.tick();
  flush_costs();
  report_sources();
  follow_fingerprint();
  send_collectives();
  ranks.bound_logs(configuration.rank_log_limit);
  tell_signs_of_life();
  watch_checkpoints();
  conversation.look_after();
}

// The machine's processes are read where a rank is silent, and then once.
void Agent::Implementation::tell_signs_of_life() {
  const Nanoseconds now = clock.monotonic();
  std::vector<SeenRank> seen;
  std::map<RankIdentity, pid_t> processes;
  const std::map<RankIdentity, std::uint64_t> events = rings.events();
  for (const LedgerRank& rank : ranks.all()) {
    if (rank.ended || rank.pid == 0) continue;
    const auto recorded = events.find(rank.id);
    seen.push_back({rank.id, rank.launch, sessions.steps_of(rank.id),
                    log_bytes(ranks.scratch(rank.id).log(rank.id.rank)),
                    recorded == events.end() ? 0 : recorded->second});
    processes[rank.id] = rank.pid;
  }
  if (now < next_signs && !signs_of_life.has_new(seen)) return;
  std::optional<std::vector<host::ProcessUse>> uses;
  const auto processor_time = [&](const RankIdentity& id) {
    if (!uses) uses = host::read_process_uses("/");
    return time_of_trees(*uses, {processes.at(id)});
  };
  for (const SignOfLife& sign : signs_of_life.look(now, seen, processor_time)) {
    wire::RankEvent event;
    event.mutable_lives()->set_output(sign.output);
    event.mutable_lives()->set_records(sign.records);
    event.mutable_lives()->set_processor(sign.processor);
    news.tell(sign.id, sign.launch, std::move(event));
  }
  const Nanoseconds end = clock.monotonic();
  next_signs = end + std::max(kSignsPeriod, (end - now) * kRestForSigns);
}

// Of jobs that may be stopped for a trial, while their own ranks run here.
void Agent::Implementation::watch_checkpoints() {
  std::map<std::string, LedgerRank> lowest;
  for (const LedgerRank& rank : ranks.all()) {
    if (!rank.ended && rank.pid != 0 && rank.id.variant.empty()) lowest.try_emplace(rank.id.job, rank);
  }
  std::erase_if(checkpoints, [&](const auto& one) {
    const auto runs = lowest.find(one.first.job);
    return runs == lowest.end() || runs->second.id != one.first || runs->second.launch != one.second.launch;
  });
  for (const auto& [job, rank] : lowest) {
    if (!checkpoints.contains(rank.id)) watch_checkpoint(rank);
  }
}

void Agent::Implementation::watch_checkpoint(const LedgerRank& rank) {
  WatchedCheckpoint& watched = checkpoints[rank.id];
  watched.launch = rank.launch;
  const auto text = read_file(ranks.scratch(rank.id).job());
  const auto job = text.ok() ? parse_job(*text, "job") : text.error();
  if (!job.ok() || job->delivery != Delivery::kRestart || !job->allow_restarts || job->checkpoint.empty()) return;
  CopyPricer pricer(Scratch(configuration.state, job->name, "trial"), configuration.checkpoint_copy_limit,
                    commands.copy_speed(job->name));
  watched.watch = std::make_unique<CheckpointWatch>(
      loop, job->checkpoint, std::move(pricer),
      [this, id = rank.id, launch = rank.launch](SaveDetector::News told, const CheckpointLook& look,
                                                 const std::optional<CopyPrice>& price) {
        wire::RankEvent event;
        wire::Saved& saved = *event.mutable_saved();
        saved.set_whole(told == SaveDetector::News::kWhole);
        if (told == SaveDetector::News::kRestless) saved.set_restless(look.latest);
        saved.set_files(look.files);
        saved.set_bytes(look.bytes);
        if (price) set_price(*saved.mutable_copy(), *price);
        news.tell(id, launch, std::move(event));
      });
}

Status Agent::Implementation::forget_job(const std::string& job) {
  TRIMTAB_TRY_STATUS(ranks.forget(job));
  news.forget(job);
  sessions.forget(job);
  jobs.forget(job);
  commands.forget(job);
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
  links = host::LinkWatch(std::max(host::LinkWatch::kWindow, 2 * configuration.sample_period));
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
  links.add(sampler->samples(), clock.monotonic());
  std::set<std::string> known;
  for (const host::LinkFault& one : links.faults()) {
    const std::string name = one.link + " " + one.reading;
    known.insert(name);
    if (!faults_told.contains(name))
      spdlog::warn("a link is not what it was, {} sure: {}", format_percent(one.confidence), to_text(one));
  }
  faults_told = std::move(known);
}

}  // namespace trimtab::agent
