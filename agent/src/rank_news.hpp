#pragma once

// What ranks said and did, on its way to the coordinator. Steps are a stream: while the link is down the latest are
// kept, and those dropped are counted. All else is state: the last of each kind is kept for each rank and said again
// after every reconnection, so nothing is lost with a link, and nothing grows. The coordinator takes repetitions in its
// stride.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "rank_identity.hpp"
#include "wire/agent.pb.h"

namespace trimtab::agent {

class RankNews {
 public:
  // False when it could not be sent now.
  using Send = std::function<bool(const wire::FromAgent&)>;

  explicit RankNews(Send send, std::size_t max_steps = 4096) : send_(std::move(send)), max_steps_(max_steps) {}

  // `event` without its job, rank, launch and variant.
  void tell(const RankIdentity& id, std::uint64_t launch, wire::RankEvent event);
  // The rank is no longer connected; that is no news (its end is), but it must not be announced as connected.
  void disconnected(const RankIdentity& id);
  // All that is remembered of this launch's predecessors goes.
  void launched(const RankIdentity& id);
  // Of a job that is over for long: what its ranks said goes.
  void forget(const std::string& job);

  // The link is open again: says what is so, then the steps that waited.
  void announce();
  // Tries what could not be sent because too much was queued.
  void retry();

  [[nodiscard]] std::uint64_t steps_dropped() const { return steps_dropped_; }
  [[nodiscard]] std::size_t steps_waiting() const { return steps_.size(); }

 private:
  void tell_step(wire::RankEvent event);
  void remember(const RankIdentity& id, const wire::RankEvent& event);
  void follow(const RankIdentity& id, std::uint64_t epoch, std::int64_t step);
  bool send(const wire::RankEvent& event);
  void send_waiting_steps();

  Send send_;
  std::size_t max_steps_;
  // By rank, then by kind in the order of telling: the end of a rank comes last, behind it only its submission's.
  std::map<RankIdentity, std::map<int, wire::RankEvent>> state_;
  std::deque<wire::RankEvent> steps_;
  std::uint64_t steps_dropped_ = 0;
  bool state_unsent_ = false;
};

}  // namespace trimtab::agent
