#include "costs/transfer_join.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "schema/nccl.hpp"

namespace trimtab::coordinator {
namespace {

// What the two ends may lie apart beyond what the clocks leave open: a hop, or the last bytes in NCCL's buffers.
constexpr std::int64_t kMeetNs = 20'000;
constexpr std::int64_t kMeetShare = 10;
// Clocks within this, or within a tenth of the transfer, say when it ended.
constexpr std::int64_t kNearNs = 5'000;

bool fits(const TransferStamp& transfer) {
  const RankStamp& stamp = transfer.stamp;
  const CollectiveFacts& facts = stamp.facts;
  return facts.ranks >= 2 && stamp.rank < facts.ranks && transfer.peer < facts.ranks && stamp.rank != transfer.peer &&
         facts.bytes > 0 && stamp.begin_ns > 0 && stamp.begin_ns <= stamp.end_ns && stamp.end_ns < kLatestStamp;
}

bool same_message(const CollectiveFacts& send, const CollectiveFacts& receive) {
  return send.ranks == receive.ranks && send.bytes == receive.bytes && send.channels == receive.channels;
}

// A receive as seen from its send: nanoseconds after the send's beginning.
struct Seen {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t unsure = 0;
  std::int64_t sent = 0;  // the send's own time
};

std::optional<Seen> seen_from(const RankStamp& send, const RankStamp& receive) {
  const auto clocks = between(receive.clock, send.clock);
  if (!clocks) return std::nullopt;
  return Seen{difference(receive.begin_ns, send.begin_ns) - clocks->ahead,
              difference(receive.end_ns, send.begin_ns) - clocks->ahead, clocks->unsure,
              difference(send.end_ns, send.begin_ns)};
}

bool waited(const Seen& seen) {
  return -seen.begin > seen.unsure;
}

bool ends_meet(const Seen& seen) {
  const std::int64_t apart = seen.end > seen.sent ? seen.end - seen.sent : seen.sent - seen.end;
  return apart - seen.unsure <= std::max(kMeetNs, seen.sent / kMeetShare);
}

std::int64_t transfer(const Seen& seen) {
  const bool near = seen.unsure <= std::max(kNearNs, seen.sent / kMeetShare);
  return near ? std::max(seen.sent, seen.end) : seen.sent;
}

}  // namespace

bool TransferStamp::receives() const {
  return stamp.facts.function == nccl::kRecv;
}

void TransferJoin::add(TransferStamp transfer, Nanoseconds now) {
  RankStamp& stamp = transfer.stamp;
  const bool sound = fits(transfer);
  if (sound) stamp.clock = usable_clock(stamp.clock, stamp.begin_ns);
  if (!sound || !stamp.clock) {
    ++counters_.unfit;
    return;
  }
  const bool receives = transfer.receives();
  const Key key{stamp.facts.communicator, receives ? transfer.peer : stamp.rank, receives ? stamp.rank : transfer.peer};
  const bool no_room = stamps_ >= kMostStamps || (pairs_.size() >= kMostPairs && !pairs_.contains(key));
  if (no_room) {
    ++counters_.dropped;
    return;
  }
  Pair& pair = pairs_[key];
  std::deque<Waiting>& side = receives ? pair.receives : pair.sends;
  if (side.size() >= kMostOfPair) {
    pop_front(side);
    ++counters_.dropped;
  }
  ++stamps_;
  side.push_back({std::move(transfer), now});
}

void TransferJoin::pop_front(std::deque<Waiting>& side) {
  side.pop_front();
  --stamps_;
}

std::vector<JoinedTransfer> TransferJoin::take(Nanoseconds now) {
  std::vector<JoinedTransfer> joined;
  for (auto entry = pairs_.begin(); entry != pairs_.end();) {
    Pair& pair = entry->second;
    while (!pair.receives.empty() && now - pair.receives.front().since >= kSettle) {
      if (auto transfer = join(pair.receives.front().transfer, pair.sends)) joined.push_back(std::move(*transfer));
      pop_front(pair.receives);
    }
    while (!pair.sends.empty() && now - pair.sends.front().since >= 2 * kSettle) pop_front(pair.sends);
    const bool silent = pair.receives.empty() && pair.sends.empty();
    entry = silent ? pairs_.erase(entry) : std::next(entry);
  }
  return joined;
}

std::optional<JoinedTransfer> TransferJoin::join(const TransferStamp& received, const std::deque<Waiting>& sends) {
  const RankStamp& receive = received.stamp;
  std::optional<JoinedTransfer> found;
  int matches = 0;
  for (const Waiting& waiting : sends) {
    const RankStamp& send = waiting.transfer.stamp;
    const auto seen = same_message(send.facts, receive.facts) ? seen_from(send, receive) : std::nullopt;
    if (!seen || !waited(*seen) || !ends_meet(*seen)) continue;
    ++matches;
    found = JoinedTransfer{receive.facts.bytes,
                           receive.facts.channels,
                           send.clock->node != receive.clock->node,
                           transfer(*seen),
                           together(send.beside, receive.beside),
                           received.fingerprint_json};
  }
  ++(matches == 1 ? counters_.joined : counters_.alone);
  return matches == 1 ? found : std::nullopt;
}

}  // namespace trimtab::coordinator
