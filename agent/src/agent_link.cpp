// The agent's side of the conversation with the coordinator (schema/wire/agent.proto).

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "agent_state.hpp"
#include "hello_facts.hpp"
#include "printable_text.hpp"
#include "schema/frame_bounds.hpp"
#include "schema/protocol_version.hpp"

#ifndef TRIMTAB_RELEASE
#define TRIMTAB_RELEASE "unknown"
#endif

namespace trimtab::agent {

namespace {

constexpr std::uint32_t kDefaultHeartbeatMs = 2000;
constexpr std::uint32_t kShortestHeartbeatMs = 50;
constexpr std::uint32_t kLongestHeartbeatMs = 60'000;

// The coordinator's own words, for the log.
std::string said(const std::string& words) {
  constexpr std::size_t kMost = 1000;
  return printable_text(words.substr(0, kMost));
}

}  // namespace

void Agent::Implementation::link_opened() {
  link.send(hello().SerializeAsString());
}

wire::FromAgent Agent::Implementation::hello() const {
  wire::FromAgent message;
  auto& hello = *message.mutable_hello();
  hello.set_protocol_version(kSpokenVersions.newest);
  hello.set_oldest_version(kSpokenVersions.oldest);
  hello.set_release(TRIMTAB_RELEASE);
  hello.set_node(configuration.node);
  hello.set_instance(state.instance);
  hello.set_tenant(configuration.tenant);
  hello.set_address(configuration.address);
  hello.set_devices(configuration.devices);
  hello.set_memory_bytes(static_cast<std::uint64_t>(facts.memory));
  hello.set_fingerprint_json(fingerprint_json);
  say_ranks(ranks.all(), hello);
  if (const Status said = say_numbers(state.database, hello); !said.ok()) {
    spdlog::warn("the numbers of batches are not told: {}", said.error().message);
  }
  return message;
}

// The same reason every few seconds is said once.
void Agent::Implementation::link_closed(const std::string& reason) {
  welcome = false;
  answered_ns = heard_ns = 0;
  heartbeat.cancel();
  traces.link_closed();
  hardware_probe.link_closed();
  retention.told(std::nullopt);
  if (std::exchange(last_link_reason, reason) != reason) spdlog::warn("no link to the coordinator: {}", reason);
}

void Agent::Implementation::received(std::string_view frame) {
  if (const Status bounded = check_to_agent(frame); !bounded.ok()) return refuse_frame(bounded.error().message);
  wire::ToAgent message;
  if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) {
    return refuse_frame("a frame of " + std::to_string(frame.size()) + " bytes is not a message");
  }
  dispatch(message);
}

void Agent::Implementation::refuse_frame(const std::string& reason) {
  ++frames_malformed;
  link.drop("what it sends is refused: " + reason + ": protocol version " + std::to_string(kSpokenVersions.newest) +
            " is spoken here. See what answers under the coordinator's address");
}

void Agent::Implementation::dispatch(const wire::ToAgent& message) {
  switch (message.body_case()) {
    case wire::ToAgent::kWelcome:
      return welcomed(message.welcome());
    case wire::ToAgent::kRefused:
      return refused(message.refused());
    case wire::ToAgent::kBatchAck:
      return batch_answered(message.batch_ack());
    case wire::ToAgent::kCommand:
      return stopping ? void() : commands.run(message.command());
    case wire::ToAgent::kPlanPropose: {
      const auto& asked = message.plan_propose();
      return sessions.propose(asked.job(), asked.epoch(), asked.plan_json(), asked.incumbent());
    }
    case wire::ToAgent::kPlanCommit: {
      const auto& asked = message.plan_commit();
      return sessions.commit(asked.job(), asked.epoch(), asked.step());
    }
    case wire::ToAgent::kPlanCancel:
      return sessions.cancel(message.plan_cancel().job(), message.plan_cancel().epoch());
    case wire::ToAgent::kStopJob:
      return sessions.stop_job(message.stop_job().job(), message.stop_job().step());
    case wire::ToAgent::kTraceStart:
      return stopping ? void() : traces.start(message.trace_start());
    case wire::ToAgent::kTraceStop:
      return traces.stop(message.trace_stop().id());
    case wire::ToAgent::kProbeBegin:
      return stopping ? void() : hardware_probe.begin(message.probe_begin());
    case wire::ToAgent::kProbeLink:
      return stopping ? void() : hardware_probe.link(message.probe_link());
    case wire::ToAgent::kProbeEnd:
      return hardware_probe.end(message.probe_end().id());
    case wire::ToAgent::kUnfinishedJobs:
      return told_unfinished(message.unfinished_jobs());
    case wire::ToAgent::kHeartbeat:
      heard_ns = static_cast<std::uint64_t>(clock.wall().count());
      answered_ns = message.heartbeat().wall_ns();
      return;
    case wire::ToAgent::BODY_NOT_SET:
      return;
  }
}

void Agent::Implementation::batch_answered(const wire::BatchAck& answer) {
  if (!answer.refused().empty()) {
    ++batches_refused;
    spdlog::error("the coordinator cannot take batch {} of costs: {}. It stays in costs.db of this agent alone",
                  answer.batch(), said(answer.refused()));
  }
  costs->acknowledged(answer.batch());
}

void Agent::Implementation::welcomed(const wire::Welcome& message) {
  const ProtocolVersions theirs{message.protocol_version(), message.protocol_version()};
  const auto version = common_version({"this agent", TRIMTAB_RELEASE, kSpokenVersions},
                                      {"the coordinator", said(message.release()), theirs});
  if (!version.ok()) return link.drop(version.error().message);
  spdlog::info("the coordinator (release {}) knows this agent", said(message.release()));
  if (const Status served = commands.serve(message.coordinator()); !served.ok()) {
    spdlog::error("{}", served.error().message);
    return link.drop(served.error().message);
  }
  if (const Status followed = follow_numbers(message); !followed.ok()) {
    spdlog::error("{}", followed.error().message);
    return link.drop(followed.error().message);
  }
  welcome = true;
  last_link_reason.clear();
  const auto asked = message.heartbeat_ms() == 0 ? kDefaultHeartbeatMs : message.heartbeat_ms();
  heartbeat = loop.every(std::chrono::milliseconds(std::clamp(asked, kShortestHeartbeatMs, kLongestHeartbeatMs)),
                         [this] { beat(); });
  beat();  // two are needed to compare the clocks
  news.announce();
  commands.link_opened();
  costs->link_opened();
}

void Agent::Implementation::told_unfinished(const wire::UnfinishedJobs& unfinished) {
  if (!unfinished.complete()) return retention.told(std::nullopt);
  retention.told(std::set<std::string>(unfinished.jobs().begin(), unfinished.jobs().end()));
}

// Which batches may go out over this connection.
Status Agent::Implementation::follow_numbers(const wire::Welcome& message) {
  if (message.renew_instance()) {
    spdlog::warn(
        "the coordinator has batches of instance {} that this agent does not know: its state was set back to an older "
        "copy, or another agent has a copy of it. What is measured from now on goes out under a new instance",
        state.instance);
    TRIMTAB_TRY_STATUS(ask_renewal(state.database, costs->last_offered()));
  }
  TRIMTAB_TRY(const std::uint64_t last, last_to_send(state.database));
  costs->send_up_to(message.costs_wait() ? 0 : last);
  return {};
}

void Agent::Implementation::refused(const wire::Refused& refusal) {
  link.drop("the coordinator refuses this agent: " + said(refusal.reason()));
}

void Agent::Implementation::beat() {
  wire::FromAgent message;
  wire::Heartbeat& heartbeat_now = *message.mutable_heartbeat();
  heartbeat_now.set_sent_ns(static_cast<std::uint64_t>(clock.monotonic().count()));
  heartbeat_now.set_answered_ns(answered_ns);
  heartbeat_now.set_heard_ns(heard_ns);
  heartbeat_now.set_kill_switch(kill_switch.thrown());
  heartbeat_now.set_wall_ns(static_cast<std::uint64_t>(clock.wall().count()));
  send(message);
}

bool Agent::Implementation::send(const wire::FromAgent& message) {
  return welcome && link.send(message.SerializeAsString());
}

}  // namespace trimtab::agent
