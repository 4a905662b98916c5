#include "rank_news.hpp"

#include <utility>

namespace trimtab::agent {

namespace {

int order_of(const wire::RankEvent& event) {
  if (event.has_exited()) return 1000;
  return event.has_submission() ? 1001 : static_cast<int>(event.body_case());
}

}  // namespace

void RankNews::tell(const RankIdentity& id, std::uint64_t launch, wire::RankEvent event) {
  event.set_job(id.job);
  event.set_rank(id.rank);
  event.set_variant(id.variant);
  event.set_launch(launch);
  if (event.has_step()) {
    follow(id, event.step().epoch(), event.step().step());
    return tell_step(std::move(event));
  }
  // Nothing hangs on one of them.
  if (event.has_passes()) return static_cast<void>(send(event));
  remember(id, event);
  if (!send(event)) state_unsent_ = true;
}

void RankNews::tell_step(wire::RankEvent event) {
  if (steps_.empty() && send(event)) return;
  steps_.push_back(std::move(event));
  if (steps_.size() <= max_steps_) return;
  steps_.pop_front();
  ++steps_dropped_;
}

void RankNews::remember(const RankIdentity& id, const wire::RankEvent& event) {
  if (event.has_plan_active()) follow(id, event.plan_active().epoch(), event.plan_active().step());
  if (event.has_exited()) disconnected(id);
  state_[id][order_of(event)] = event;
}

// A rank that is announced as connected is announced with what it runs now.
void RankNews::follow(const RankIdentity& id, std::uint64_t epoch, std::int64_t step) {
  const auto rank = state_.find(id);
  if (rank == state_.end()) return;
  const auto connected = rank->second.find(static_cast<int>(wire::RankEvent::kConnected));
  if (connected == rank->second.end()) return;
  connected->second.mutable_connected()->set_epoch(epoch);
  connected->second.mutable_connected()->set_step(step);
}

void RankNews::disconnected(const RankIdentity& id) {
  const auto rank = state_.find(id);
  if (rank != state_.end()) rank->second.erase(static_cast<int>(wire::RankEvent::kConnected));
}

void RankNews::launched(const RankIdentity& id) {
  state_.erase(id);
  std::erase_if(steps_, [&](const wire::RankEvent& step) {
    return step.job() == id.job && step.rank() == id.rank && step.variant() == id.variant;
  });
}

void RankNews::forget(const std::string& job) {
  std::erase_if(state_, [&](const auto& rank) { return rank.first.job == job; });
  std::erase_if(steps_, [&](const wire::RankEvent& step) { return step.job() == job; });
}

void RankNews::announce() {
  state_unsent_ = false;
  for (const auto& [id, events] : state_) {
    for (const auto& [order, event] : events) {
      if (!send(event)) state_unsent_ = true;
    }
  }
  if (!state_unsent_) send_waiting_steps();
}

void RankNews::retry() {
  if (state_unsent_) return announce();
  send_waiting_steps();
}

void RankNews::send_waiting_steps() {
  while (!steps_.empty() && send(steps_.front())) steps_.pop_front();
}

bool RankNews::send(const wire::RankEvent& event) {
  wire::FromAgent message;
  *message.mutable_rank_event() = event;
  return send_(message);
}

}  // namespace trimtab::agent
