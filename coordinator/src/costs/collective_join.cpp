#include "costs/collective_join.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "schema/nccl.hpp"

namespace trimtab::coordinator {

namespace {

constexpr std::uint32_t kMostRanks = 65535;
constexpr std::size_t kEnoughDifferences = 5;
constexpr std::int64_t kLateNs = 20'000;
constexpr std::int64_t kMeetNs = 5'000;
constexpr std::int64_t kMeetShare = 10;
// Ends that lie further apart than this and than the transfer took twice are not the ends of one collective.
constexpr std::int64_t kApartNs = 5'000'000;
// Offsets that bounds would move so far are of another time.
constexpr std::int64_t kFarthestMove = std::int64_t{1} << 40;

bool fits(const RankStamp& stamp) {
  const CollectiveFacts& facts = stamp.facts;
  return nccl::ends_together(facts.function) && facts.ranks >= 2 && facts.ranks <= kMostRanks &&
         stamp.rank < facts.ranks && facts.bytes > 0 && stamp.begin_ns > 0 && stamp.begin_ns <= stamp.end_ns &&
         stamp.end_ns < kLatestStamp;
}

std::int64_t median(std::vector<std::int64_t> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One collective on one clock.
struct Aligned {
  std::int64_t earliest_end = std::numeric_limits<std::int64_t>::max();
  std::int64_t latest_end = std::numeric_limits<std::int64_t>::min();
  std::int64_t latest_begin = std::numeric_limits<std::int64_t>::min();
  std::int64_t before_latest = std::numeric_limits<std::int64_t>::min();
  std::size_t latest = 0;

  void add(std::size_t rank, std::int64_t begin, std::int64_t end) {
    earliest_end = std::min(earliest_end, end);
    latest_end = std::max(latest_end, end);
    if (begin > latest_begin) {
      before_latest = std::exchange(latest_begin, begin);
      latest = rank;
    } else {
      before_latest = std::max(before_latest, begin);
    }
  }
  [[nodiscard]] std::int64_t transfer() const { return earliest_end - latest_begin; }
};

Aligned align(const std::vector<RankTimes>& ranks, const std::vector<std::int64_t>& offsets) {
  Aligned aligned;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    aligned.add(rank, static_cast<std::int64_t>(ranks[rank].begin_ns) - offsets[rank],
                static_cast<std::int64_t>(ranks[rank].end_ns) - offsets[rank]);
  }
  return aligned;
}

bool meet(const Aligned& aligned, std::int64_t share_of_transfer) {
  const std::int64_t apart = aligned.latest_end - aligned.earliest_end;
  return aligned.transfer() > 0 && apart <= std::max(kMeetNs, aligned.transfer() / share_of_transfer);
}

struct Offsets {
  std::vector<std::int64_t> of_rank;
  bool moved = false;         // by the bounds
  bool contradicted = false;  // the bounds cannot be true
};

// The offsets where the bounds allow them, else at the nearest place that they do; unless that tears the ends apart by
// more than the transfer takes.
Offsets within_bounds(const std::vector<RankTimes>& ranks, const std::vector<std::int64_t>& offsets) {
  Offsets bounded{offsets};
  bool far = false;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const auto bounds = between(ranks[rank].clock, ranks[0].clock);
    if (!bounds) continue;
    const std::int64_t place = std::clamp(offsets[rank], bounds->least(), bounds->most());
    bounded.moved = bounded.moved || place != offsets[rank];
    far = far || place - offsets[rank] > kFarthestMove || offsets[rank] - place > kFarthestMove;
    bounded.of_rank[rank] = place;
  }
  if (!bounded.moved) return bounded;
  if (!far && meet(align(ranks, bounded.of_rank), 1)) return bounded;
  return {offsets, false, true};
}

// Whether that rank began after every other one, wherever in their bounds the clocks are.
bool surely_last(const std::vector<RankTimes>& ranks, std::size_t last) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == last) continue;
    const auto clocks = between(ranks[last].clock, ranks[rank].clock);
    if (!clocks || difference(ranks[last].begin_ns, ranks[rank].begin_ns) <= clocks->most()) return false;
  }
  return true;
}

}  // namespace

CostSource::Beside together(CostSource::Beside one, CostSource::Beside other) {
  using Beside = CostSource::Beside;
  if (one == Beside::kComputation || other == Beside::kComputation) return Beside::kComputation;
  return one == other ? one : Beside::kNotSaid;
}

std::optional<JoinedCollective> CollectiveJoin::add(const RankStamp& stamp, Nanoseconds now) {
  const Key key{stamp.facts.communicator, stamp.facts.function, stamp.sequence};
  if (!fits(stamp) || stamp.facts.ranks > limits_.stamps) {
    ++counters_.unfit;
    return std::nullopt;
  }
  if (done_.contains(key)) {
    ++counters_.repeated;
    return std::nullopt;
  }
  auto [entry, fresh] = pending_.try_emplace(key);
  Pending& pending = entry->second;
  if (fresh) {
    pending = {stamp.facts, now, stamp.facts.ranks, std::vector<RankTimes>(stamp.facts.ranks)};
    stamps_ += pending.ranks.size();
    order_.push_back(key);
  } else if (pending.facts != stamp.facts) {
    // Ranks that count differently will not agree on the next one either; each is left to its own.
    ++counters_.contradictory;
    remove(entry);
    remember(key);
    return std::nullopt;
  }
  RankTimes& times = pending.ranks[stamp.rank];
  if (times.begin_ns != 0) {
    ++counters_.repeated;
    return std::nullopt;
  }
  times = stamp;
  times.clock = usable_clock(stamp.clock, stamp.begin_ns);
  if (--pending.missing > 0) {
    while (pending_.size() > limits_.pending || stamps_ > limits_.stamps) give_up_oldest();
    return std::nullopt;
  }
  const Pending whole = std::move(pending);
  stamps_ -= whole.ranks.size();
  pending_.erase(entry);
  remember(key);
  return complete(whole);
}

std::optional<JoinedCollective> CollectiveJoin::complete(const Pending& pending) {
  const std::vector<RankTimes>& ranks = pending.ranks;
  std::vector<std::int64_t> differences(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    differences[rank] = difference(ranks[rank].end_ns, ranks[0].end_ns);
  }
  Clocks& clocks = clocks_of(pending.facts);
  const std::vector<std::int64_t> known = offsets(clocks);
  learn(clocks, differences);
  Offsets used = within_bounds(ranks, known.empty() ? differences : known);
  Aligned aligned = align(ranks, used.of_rank);
  const std::int64_t apart = aligned.latest_end - aligned.earliest_end;
  if (apart > kApartNs && apart > 2 * aligned.transfer()) {
    ++counters_.implausible;
    return std::nullopt;
  }
  if (!used.moved && (known.empty() || !meet(aligned, kMeetShare))) {
    used.of_rank = differences;
    aligned = align(ranks, differences);
  }

  JoinedCollective joined{pending.facts, std::max<std::int64_t>(aligned.transfer(), 0), ranks[0].beside, {}, {}, {}};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::int64_t begin = static_cast<std::int64_t>(ranks[rank].begin_ns) - used.of_rank[rank];
    joined.waiting_ns.push_back(aligned.latest_begin - begin);
    joined.job_ranks.push_back(ranks[rank].job_rank);
    joined.beside = together(joined.beside, ranks[rank].beside);
  }
  const std::int64_t lead = aligned.latest_begin - aligned.before_latest;
  if (lead > std::max(kLateNs, joined.transfer_ns / 10)) {
    if (!used.contradicted && surely_last(ranks, aligned.latest)) {
      joined.late_job_rank = ranks[aligned.latest].job_rank;
    } else {
      ++counters_.unsure;
    }
  }
  if (used.contradicted) ++counters_.clocks_wrong;
  ++counters_.joined;
  return joined;
}

CollectiveJoin::Clocks& CollectiveJoin::clocks_of(const CollectiveFacts& facts) {
  if (!clocks_.contains(facts.communicator) && clocks_.size() >= limits_.communicators) {
    clocks_.erase(std::min_element(clocks_.begin(), clocks_.end(),
                                   [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  }
  Clocks& clocks = clocks_[facts.communicator];
  if (clocks.differences.size() != facts.ranks) clocks = {std::vector<std::vector<std::int64_t>>(facts.ranks), 0, 0};
  clocks.used = ++uses_;
  return clocks;
}

// Also from what turns out implausible: after a clock was set, the new differences are soon the majority.
void CollectiveJoin::learn(Clocks& clocks, const std::vector<std::int64_t>& differences) {
  for (std::size_t rank = 0; rank < differences.size(); ++rank) {
    std::vector<std::int64_t>& kept = clocks.differences[rank];
    if (kept.size() < Clocks::kKept) {
      kept.push_back(differences[rank]);
    } else {
      kept[clocks.next] = differences[rank];
    }
  }
  clocks.next = (clocks.next + 1) % Clocks::kKept;
}

// Empty while too little is known.
std::vector<std::int64_t> CollectiveJoin::offsets(const Clocks& clocks) {
  std::vector<std::int64_t> result;
  if (clocks.differences.front().size() < kEnoughDifferences) return result;
  for (const auto& kept : clocks.differences) result.push_back(median(kept));
  return result;
}

void CollectiveJoin::remove(std::map<Key, Pending>::iterator entry) {
  stamps_ -= entry->second.ranks.size();
  pending_.erase(entry);
}

void CollectiveJoin::give_up_oldest() {
  while (!order_.empty()) {
    const Key key = order_.front();
    order_.pop_front();
    const auto entry = pending_.find(key);
    if (entry == pending_.end()) continue;
    ++counters_.incomplete;
    remove(entry);
    return;
  }
}

void CollectiveJoin::expire(Nanoseconds now) {
  while (!order_.empty()) {
    const auto entry = pending_.find(order_.front());
    if (entry != pending_.end() && now - entry->second.since < limits_.patience) return;
    if (entry != pending_.end()) {
      ++counters_.incomplete;
      remember(entry->first);
      remove(entry);
    }
    order_.pop_front();
  }
}

void CollectiveJoin::remember(const Key& key) {
  if (!done_.insert(key).second) return;
  done_order_.push_back(key);
  if (done_order_.size() <= kRemembered) return;
  done_.erase(done_order_.front());
  done_order_.pop_front();
}

namespace {

// Hosts' clocks and bounds beyond these say nothing; less than that never overflows.
constexpr std::int64_t kFarthestHost = std::int64_t{1} << 58;
constexpr std::uint64_t kWidestBound = std::uint64_t{1} << 55;

bool sane(const ClockDifference::Offset& host) {
  return host.ns < kFarthestHost && host.ns > -kFarthestHost && host.uncertainty_ns < kWidestBound;
}

}  // namespace

std::optional<StampClock> usable_clock(std::optional<StampClock> clock, std::uint64_t begin_ns) {
  if (!clock) return clock;
  if (begin_ns - static_cast<std::uint64_t>(clock->gpu.ns) >= kLatestStamp) return std::nullopt;
  if (clock->gpu.uncertainty_ns >= kWidestBound) return std::nullopt;
  if (clock->host && !sane(*clock->host)) clock->host.reset();
  return clock;
}

std::optional<Between> between(const std::optional<StampClock>& first, const std::optional<StampClock>& second) {
  if (!first || !second) return std::nullopt;
  Between clocks;
  clocks.ahead = first->gpu.ns - second->gpu.ns;
  clocks.unsure = static_cast<std::int64_t>(first->gpu.uncertainty_ns + second->gpu.uncertainty_ns);
  if (first->node == second->node) return clocks;
  if (!first->host || !second->host) return std::nullopt;
  clocks.ahead += first->host->ns - second->host->ns;
  clocks.unsure += static_cast<std::int64_t>(first->host->uncertainty_ns + second->host->uncertainty_ns);
  return clocks;
}

}  // namespace trimtab::coordinator
