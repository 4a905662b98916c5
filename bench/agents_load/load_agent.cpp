#include "load_agent.hpp"

#include <utility>

#include "costs/cost_store.hpp"
#include "schema/protocol_version.hpp"

namespace trimtab::load {

using agent::CostStore;

LoadAgent::LoadAgent(net::EventLoop& loop, const Clock& clock, net::LinkOptions options, std::uint32_t index,
                     CostLoad& load, LoadCounts& counts, Due due)
    : loop_(loop),
      clock_(clock),
      index_(index),
      load_(load),
      counts_(counts),
      due_(std::move(due)),
      link_(loop, std::move(options),
            {[this] { hello(); }, [this](std::string_view frame) { received(frame); },
             [this](const std::string& reason) {
               if (welcome_) ++counts_.closes;
               counts_.last_reason = reason;
               welcome_ = false;
               heartbeat_.cancel();
             }},
            index + 1) {}

void LoadAgent::hello() {
  wire::FromAgent message;
  wire::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kSpokenVersions.newest);
  hello.set_oldest_version(kSpokenVersions.oldest);
  hello.set_release(TRIMTAB_RELEASE);
  hello.set_node("node-" + std::to_string(index_));
  hello.set_instance(load_.instance(index_));
  hello.set_devices(8);
  hello.set_memory_bytes(std::uint64_t{80} << 30U);
  hello.set_fingerprint_json(load_.fingerprint_json());
  link_.send(message.SerializeAsString());
}

void LoadAgent::received(std::string_view frame) {
  wire::ToAgent message;
  if (!message.ParseFromArray(frame.data(), static_cast<int>(frame.size()))) return link_.drop("it is no message");
  if (message.has_welcome()) return welcomed(message.welcome().heartbeat_ms());
  if (message.has_refused()) return link_.drop("refused: " + message.refused().reason());
  if (!message.has_batch_ack()) return;
  if (!message.batch_ack().refused().empty()) {
    ++counts_.refused;
    counts_.last_reason = message.batch_ack().refused();
  }
  acknowledged(message.batch_ack().batch());
}

void LoadAgent::welcomed(std::uint32_t heartbeat_ms) {
  ++counts_.welcomes;
  welcome_ = true;
  heartbeat_ = loop_.every(std::chrono::milliseconds(heartbeat_ms), [this] { beat(); });
  in_flight_.clear();
  last_sent_ = acknowledged_below_;
  last_answer_ = clock_.monotonic();
  pump();
}

void LoadAgent::beat() {
  wire::FromAgent message;
  message.mutable_heartbeat()->set_sent_ns(static_cast<std::uint64_t>(clock_.monotonic().count()));
  message.mutable_heartbeat()->set_wall_ns(static_cast<std::uint64_t>(clock_.wall().count()));
  link_.send(message.SerializeAsString());
}

void LoadAgent::make() {
  ++made_;
  ++counts_.made;
  pump();
}

void LoadAgent::look_after() {
  if (in_flight_.empty() || clock_.monotonic() - last_answer_ < CostStore::kAnswerTime) return;
  in_flight_.clear();
  last_sent_ = acknowledged_below_;
  last_answer_ = clock_.monotonic();
  pump();
}

void LoadAgent::pump() {
  while (welcome_ && in_flight_.size() < CostStore::kMaxInFlight && last_sent_ < made_) {
    const std::uint64_t number = last_sent_ + 1;
    if (!is_acknowledged(number) && !send(number)) return;
    last_sent_ = number;
  }
}

bool LoadAgent::send(std::uint64_t number) {
  const bool first = number > first_sent_;
  wire::FromAgent message;
  load_.fill(*message.mutable_cost_batch(), index_, number, first);
  if (first) {
    first_sent_ = number;
  } else {
    ++counts_.sent_again;
  }
  if (!link_.send(message.SerializeAsString())) return false;
  in_flight_.insert(number);
  return true;
}

bool LoadAgent::is_acknowledged(std::uint64_t number) const {
  return number <= acknowledged_below_ || acknowledged_.contains(number);
}

void LoadAgent::acknowledged(std::uint64_t number) {
  last_answer_ = clock_.monotonic();
  in_flight_.erase(number);
  if (number <= made_ && !is_acknowledged(number)) {
    ++counts_.acknowledged;
    counts_.latency_ns.add(std::max<std::int64_t>(0, (last_answer_ - due_(number)).count()));
    acknowledged_.insert(number);
    while (acknowledged_.erase(acknowledged_below_ + 1) > 0) ++acknowledged_below_;
  }
  pump();
}

}  // namespace trimtab::load
