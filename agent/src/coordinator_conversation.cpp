#include "coordinator_conversation.hpp"

#include <spdlog/spdlog.h>

#include "processes/printable_text.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/protocol_version.hpp"

namespace trimtab::agent {

namespace {

constexpr std::uint32_t kDefaultHeartbeatMs = 2000;
constexpr std::uint32_t kShortestHeartbeatMs = 50;
constexpr std::uint32_t kLongestHeartbeatMs = 60'000;
// On a slow link steps and heartbeats stand behind the costs that are on their way: those wait in the spool instead.
constexpr std::size_t kCostsAhead = 128 * 1024;

// The coordinator's own words, for the log.
std::string said(const std::string& words) {
  constexpr std::size_t kMost = 1000;
  return printable_text(words.substr(0, kMost));
}

}  // namespace

wire::FromAgent CoordinatorConversation::hello() const {
  wire::FromAgent message;
  auto& hello = *message.mutable_hello();
  hello.set_protocol_version(kSpokenVersions.newest);
  hello.set_oldest_version(kSpokenVersions.oldest);
  hello.set_release(TRIMTAB_RELEASE);
  hello.set_node(surroundings_.configuration.node);
  hello.set_instance(surroundings_.state.instance);
  hello.set_tenant(surroundings_.configuration.tenant);
  hello.set_address(surroundings_.configuration.address);
  hello.set_devices(surroundings_.configuration.devices);
  hello.set_memory_bytes(static_cast<std::uint64_t>(surroundings_.memory));
  hello.set_fingerprint_json(surroundings_.fingerprint_json);
  hello.set_kill_switch(surroundings_.kill_switch());
  say_ranks(surroundings_.ranks.all(), hello);
  say_kept(scratch_jobs(surroundings_.configuration.state), hello);
  if (const Status said = say_numbers(surroundings_.state.database, hello); !said.ok()) {
    spdlog::warn("the numbers of batches are not told: {}", said.error().message);
  }
  return message;
}

// The same reason every few seconds is said once.
void CoordinatorConversation::closed(const std::string& reason) {
  welcome_ = false;
  answered_ns_ = heard_ns_ = 0;
  port_.beat_every(Nanoseconds(0));
  surroundings_.traces.link_closed();
  surroundings_.probe.link_closed();
  surroundings_.retention.told(std::nullopt);
  if (std::exchange(last_reason_, reason) != reason) spdlog::warn("no link to the coordinator: {}", reason);
}

void CoordinatorConversation::received(std::string_view frame) {
  if (const Status bounded = check_to_agent(frame); !bounded.ok()) return refuse_frame(bounded.error().message);
  wire::ToAgent message;
  if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
    return refuse_frame("a frame of " + std::to_string(frame.size()) + " bytes is not a message");
  }
  dispatch(message);
}

void CoordinatorConversation::refuse_frame(const std::string& reason) {
  ++counters_.frames_malformed;
  port_.drop("what it sends is refused: " + reason + ": protocol version " + std::to_string(kSpokenVersions.newest) +
             " is spoken here. See what answers under the coordinator's address");
}

void CoordinatorConversation::dispatch(const wire::ToAgent& message) {
  switch (message.body_case()) {
    case wire::ToAgent::kWelcome:
      return welcomed(message.welcome());
    case wire::ToAgent::kRefused:
      return refused(message.refused());
    case wire::ToAgent::kBatchAck:
      return batch_answered(message.batch_ack());
    case wire::ToAgent::kCommand:
      return stopping_ ? void() : surroundings_.commands.run(message.command());
    case wire::ToAgent::kPlanPropose: {
      const auto& asked = message.plan_propose();
      return surroundings_.sessions.propose(asked.job(), asked.epoch(), asked.plan_json(), asked.incumbent());
    }
    case wire::ToAgent::kPlanCommit: {
      const auto& asked = message.plan_commit();
      return surroundings_.sessions.commit(asked.job(), asked.epoch(), asked.step());
    }
    case wire::ToAgent::kPlanCancel:
      return surroundings_.sessions.cancel(message.plan_cancel().job(), message.plan_cancel().epoch());
    case wire::ToAgent::kStopJob:
      return surroundings_.sessions.stop_job(message.stop_job().job(), message.stop_job().step());
    case wire::ToAgent::kMeasureAgain: {
      const auto& asked = message.measure_again();
      return surroundings_.sessions.measure_again(asked.job(), asked.number(), asked.request_json());
    }
    case wire::ToAgent::kTraceStart:
      return stopping_ ? void() : surroundings_.traces.start(message.trace_start());
    case wire::ToAgent::kTraceStop:
      return surroundings_.traces.stop(message.trace_stop().id());
    case wire::ToAgent::kProbeBegin:
      return stopping_ ? void() : surroundings_.probe.begin(message.probe_begin());
    case wire::ToAgent::kProbeLink:
      return stopping_ ? void() : surroundings_.probe.link(message.probe_link());
    case wire::ToAgent::kProbeEnd:
      return surroundings_.probe.end(message.probe_end().id());
    case wire::ToAgent::kUnfinishedJobs:
      return told_unfinished(message.unfinished_jobs());
    case wire::ToAgent::kHeartbeat:
      heard_ns_ = static_cast<std::uint64_t>(surroundings_.clock.wall().count());
      answered_ns_ = message.heartbeat().wall_ns();
      return;
    case wire::ToAgent::BODY_NOT_SET:
      return;
  }
}

void CoordinatorConversation::batch_answered(const wire::BatchAck& answer) {
  if (!answer.refused().empty()) {
    ++counters_.batches_refused;
    spdlog::error("the coordinator cannot take batch {} of costs: {}. It stays in costs.db of this agent alone",
                  answer.batch(), said(answer.refused()));
  }
  surroundings_.costs->acknowledged(answer.batch());
}

void CoordinatorConversation::welcomed(const wire::Welcome& message) {
  const ProtocolVersions theirs{message.protocol_version(), message.protocol_version()};
  const auto version = common_version({"this agent", TRIMTAB_RELEASE, kSpokenVersions},
                                      {"the coordinator", said(message.release()), theirs});
  if (!version.ok()) return port_.drop(version.error().message);
  spdlog::info("the coordinator (release {}) knows this agent", said(message.release()));
  if (const Status served = surroundings_.commands.serve(message.coordinator()); !served.ok()) {
    spdlog::error("{}", served.error().message);
    return port_.drop(served.error().message);
  }
  if (const Status followed = follow_numbers(message); !followed.ok()) {
    spdlog::error("{}", followed.error().message);
    return port_.drop(followed.error().message);
  }
  welcome_ = true;
  last_reason_.clear();
  const auto asked = message.heartbeat_ms() == 0 ? kDefaultHeartbeatMs : message.heartbeat_ms();
  port_.beat_every(std::chrono::milliseconds(std::clamp(asked, kShortestHeartbeatMs, kLongestHeartbeatMs)));
  beat();  // two are needed to compare the clocks
  surroundings_.news.announce();
  surroundings_.commands.retry();
  surroundings_.costs->link_opened();
}

void CoordinatorConversation::told_unfinished(const wire::UnfinishedJobs& unfinished) {
  if (!unfinished.complete()) return surroundings_.retention.told(std::nullopt);
  const std::set<std::string> jobs(unfinished.jobs().begin(), unfinished.jobs().end());
  surroundings_.news.unfinished(jobs);
  surroundings_.sessions.unfinished(jobs);
  for (const LedgerRank& rank : surroundings_.ranks.all()) {
    if (!jobs.contains(rank.id.job)) surroundings_.ranks.prepared().forget(rank.id.job);
  }
  surroundings_.retention.told(jobs);
}

// Which batches may go out over this connection.
Status CoordinatorConversation::follow_numbers(const wire::Welcome& message) {
  if (message.renew_instance()) {
    spdlog::warn(
        "the coordinator has batches of instance {} that this agent does not know: its state was set back to an older "
        "copy, or another agent has a copy of it. What is measured from now on goes out under a new instance",
        surroundings_.state.instance);
    TRIMTAB_TRY_STATUS(ask_renewal(surroundings_.state.database, surroundings_.costs->last_offered()));
  }
  TRIMTAB_TRY(const std::uint64_t last, last_to_send(surroundings_.state.database));
  surroundings_.costs->send_up_to(message.costs_wait() ? 0 : last);
  return {};
}

void CoordinatorConversation::refused(const wire::Refused& refusal) {
  port_.drop("the coordinator refuses this agent: " + said(refusal.reason()));
}

void CoordinatorConversation::beat() {
  wire::FromAgent message;
  wire::Heartbeat& heartbeat_now = *message.mutable_heartbeat();
  heartbeat_now.set_sent_ns(static_cast<std::uint64_t>(surroundings_.clock.monotonic().count()));
  heartbeat_now.set_answered_ns(answered_ns_);
  heartbeat_now.set_heard_ns(heard_ns_);
  heartbeat_now.set_kill_switch(surroundings_.kill_switch());
  heartbeat_now.set_wall_ns(static_cast<std::uint64_t>(surroundings_.clock.wall().count()));
  send(message);
}

void CoordinatorConversation::look_after() {
  if (!welcome_) return;
  surroundings_.news.retry();
  surroundings_.commands.retry();
  surroundings_.costs->look_after(surroundings_.clock.monotonic());
  renew_instance();
}

// The coordinator knows an agent by its instance: it is told of a new one in a new conversation.
void CoordinatorConversation::renew_instance() {
  Random fresh(surroundings_.seed());
  const auto renewed =
      agent::renew_instance(surroundings_.state, fresh, [this](const std::string& instance, std::uint64_t batches) {
        return surroundings_.costs->prepare_renewal(instance, batches);
      });
  if (!renewed.ok()) return spdlog::warn("this agent needs a new instance: {}", renewed.error().message);
  if (!*renewed) return;
  surroundings_.costs->renew(surroundings_.state.instance);
  spdlog::info("this agent's batches go on as those of instance {}", surroundings_.state.instance);
  port_.drop("the agent has a new instance");
}

bool CoordinatorConversation::send_costs(const wire::FromAgent& message) {
  return port_.queued_bytes() < kCostsAhead && send(message);
}

bool CoordinatorConversation::send_trace(const wire::FromAgent& message) {
  return port_.queued_bytes() < static_cast<std::size_t>(surroundings_.configuration.link_queue) / 2 && send(message);
}

namespace {

void say_running(const LedgerRank& rank, wire::Hello& hello) {
  wire::RunningRank& running = *hello.add_running();
  running.set_job(rank.id.job);
  running.set_rank(rank.id.rank);
  running.set_pid(rank.pid);
  running.set_launch(rank.launch);
  running.set_epoch(rank.epoch);
  running.set_variant(rank.id.variant);
  running.set_watched(rank.is_watched());
}

}  // namespace

void say_ranks(const std::vector<LedgerRank>& ranks, wire::Hello& hello) {
  std::map<std::string, std::uint64_t> launches;
  for (const LedgerRank& rank : ranks) {
    if (!rank.ended) say_running(rank, hello);
    if (rank.is_watched()) continue;  // its launches are numbered by its user
    std::uint64_t& latest = launches[rank.id.job];
    latest = std::max(latest, rank.launch);
  }
  for (const auto& [job, launch] : launches) {
    wire::JobLaunch& one = *hello.add_launches();
    one.set_job(job);
    one.set_launch(launch);
  }
}

void say_kept(const std::set<std::string>& jobs, wire::Hello& hello) {
  std::set<std::string> unnamed = jobs;
  for (const wire::JobLaunch& one : hello.launches()) unnamed.erase(one.job());
  for (const std::string& job : unnamed) {
    if (!std::cmp_less(hello.launches_size(), kMostLaunches)) return;
    hello.add_launches()->set_job(job);
  }
}

Status say_numbers(const Database& database, wire::Hello& hello) {
  TRIMTAB_TRY(const BatchNumbers numbers, batch_numbers(database));
  hello.set_last_batch(numbers.last);
  hello.set_held_from(numbers.held_from);
  hello.set_acknowledged_by(numbers.coordinator);
  return {};
}

}  // namespace trimtab::agent
