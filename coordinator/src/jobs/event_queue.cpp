#include "jobs/event_queue.hpp"

#include <iterator>
#include <utility>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

bool is_step(const Event& event) {
  const auto* from = std::get_if<FromRank>(&event);
  return from != nullptr && std::holds_alternative<RankStep>(from->news);
}

}  // namespace

// Nothing for what each one of counts: steps, people's orders, and answers to what the job itself asked for.
std::optional<EventQueue::Key> EventQueue::key_of(const Event& event) {
  const std::size_t kind = event.index();
  if (const auto* done = std::get_if<CommandFinished>(&event)) return Key{kind, 0, 0, done->tag};
  if (const auto* lost = std::get_if<NodeLost>(&event)) return Key{kind, 0, 0, lost->node};
  if (const auto* back = std::get_if<NodeBack>(&event)) return Key{kind, 0, 0, back->node};
  if (const auto* watched = std::get_if<RankWatched>(&event)) return Key{kind, 0, watched->rank, ""};
  if (const auto* from = std::get_if<FromRank>(&event)) {
    return is_step(event) ? std::optional<Key>() : Key{kind, from->news.index(), from->rank, ""};
  }
  const bool each_counts = std::holds_alternative<Order>(event) || std::holds_alternative<CostsCounted>(event) ||
                           std::holds_alternative<SearchFinished>(event) ||
                           std::holds_alternative<DoubtfulListed>(event);
  return each_counts ? std::optional<Key>() : Key{kind, 0, 0, ""};
}

bool EventQueue::push(Event event) {
  if (is_step(event) && steps_ >= kMostSteps) return false;
  steps_ += is_step(event) ? 1 : 0;
  auto key = key_of(event);
  if (key) {
    if (const auto earlier = latest_.find(*key); earlier != latest_.end()) waiting_.erase(earlier->second);
  }
  waiting_.push_back({std::move(event), key});
  if (key) latest_[*key] = std::prev(waiting_.end());
  return true;
}

Event EventQueue::pop() {
  TRIMTAB_ASSERT(!waiting_.empty(), "an event waits");
  Waiting first = std::move(waiting_.front());
  waiting_.pop_front();
  if (first.key) latest_.erase(*first.key);
  steps_ -= is_step(first.event) ? 1 : 0;
  return std::move(first.event);
}

}  // namespace trimtab::coordinator
