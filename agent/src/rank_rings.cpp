#include "rank_rings.hpp"

#include <spdlog/spdlog.h>

#include <span>
#include <utility>

namespace trimtab::agent {

namespace {

// A ring that fills faster than this for long drops records, and the producers count them; the loop stays answerable.
constexpr std::size_t kRecordsPerDrain = 64 * 1024;

}  // namespace

Status RankRings::attach(net::LocalPeerId peer, int descriptor, CostOrigin origin) {
  TRIMTAB_TRY(auto reader, RingReader::attach(descriptor, clock_));
  rings_[peer] = {std::move(reader), std::make_unique<RangeFold>(), {}, std::move(origin), false};
  return {};
}

void RankRings::set_context(net::LocalPeerId peer, std::uint64_t epoch, const FoldContext& context, bool now) {
  const auto found = rings_.find(peer);
  if (found == rings_.end()) return;
  found->second.fold->set_context(static_cast<std::int64_t>(epoch), context);
  if (!now) return;
  found->second.fold->begin_epoch(static_cast<std::int64_t>(epoch));
  found->second.timeline.begin_epoch(epoch);
}

void RankRings::producer_ended(net::LocalPeerId peer) {
  const auto found = rings_.find(peer);
  if (found != rings_.end()) found->second.reader->producer_ended();
}

void RankRings::drain() {
  for (auto entry = rings_.begin(); entry != rings_.end();) {
    Ring& ring = entry->second;
    drain(entry->first, ring);
    const bool done = ring.gone || ring.reader->finished();
    if (done) collect(ring);
    entry = done ? rings_.erase(entry) : std::next(entry);
  }
}

void RankRings::drain(net::LocalPeerId peer, Ring& ring) {
  const auto fold = [&](std::span<const RangeRecord> records) {
    for (const auto& record : records) {
      ring.fold->add(record);
      const auto picture = ring.timeline.add(record);
      if (picture && on_picture) on_picture(peer, *picture);
    }
  };
  const RingDrain drained = ring.reader->drain(kRecordsPerDrain, fold);
  counters_.records += drained.records;
  counters_.skipped += drained.skipped;
  counters_.malformed += drained.malformed;
  counters_.dropped += drained.dropped;
  counters_.names_dropped += drained.names_dropped;
  counters_.untracked += drained.untracked;
  if (!drained.broken) return;
  ++counters_.broken_rings;
  ring.gone = true;
  spdlog::warn("the record ring of process {} is broken and was given up", ring.reader->pid());
}

void RankRings::collect(Ring& ring) {
  collected_.add(ring.origin, ring.fold->take());
}

void RankRings::take(CostCollection& into) {
  for (auto& [peer, ring] : rings_) collect(ring);
  collected_.flush([&](const CostOrigin& origin, const std::vector<Cost>& costs) {
    into.add(origin, costs);
    return true;
  });
}

}  // namespace trimtab::agent
