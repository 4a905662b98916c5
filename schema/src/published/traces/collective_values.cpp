#include "published/traces/collective_values.hpp"

#include <algorithm>

#include "published/measured.hpp"

namespace trimtab::published {

namespace {

using Beside = CostSource::Beside;
using Clock = CostSource::Clock;

bool same(const TracedCollective& one, const TracedCollective& other) {
  return one.primitive == other.primitive && one.bytes == other.bytes && one.dtype == other.dtype;
}

Beside together(Beside one, Beside other) {
  return one == Beside::kComputation ? one : other;
}

}  // namespace

void CollectiveValues::add(const TracedRank& rank, std::int32_t number) {
  std::vector<std::uint32_t> numbers;
  for (const TracedGroup& group : rank.groups) {
    const auto [entry, fresh] = group_numbers_.try_emplace(group, static_cast<std::uint32_t>(groups_.size()));
    if (fresh) groups_.push_back(group);
    numbers.push_back(entry->second);
  }
  for (const TracedCollective& one : rank.collectives) {
    if (groups_[numbers[one.group]].size < 2) continue;  // it crosses no link
    Place place{numbers[one.group]};
    place.sequence = one.sequence;
    if (one.sequence < 0) place.step = one.step;
    if (one.peer >= 0) {
      place.from = one.sends ? number : one.peer;
      place.to = one.sends ? one.peer : number;
    }
    places_[place][number].push_back({one, number, rank.on_device ? Clock::kDevice : Clock::kHost});
  }
}

// Whether all ranks are there and say the same things in the same order.
bool CollectiveValues::is_whole(const Place& place, const ByRank& ranks) const {
  const std::size_t wanted = place.from >= 0 ? 2 : static_cast<std::size_t>(groups_[place.group].size);
  if (ranks.size() != wanted) return false;
  const std::vector<Seen>& first = ranks.begin()->second;
  return std::ranges::all_of(ranks, [&first](const auto& rank) {
    return std::ranges::equal(first, rank.second,
                              [](const Seen& one, const Seen& other) { return same(one.what, other.what); });
  });
}

CostKey CollectiveValues::key_of(const Place& place, const TracedCollective& what, bool several) const {
  const bool transfer = place.from >= 0;
  return canonical(link_key(transfer ? CostKind::kPointToPoint : CostKind::kCollective, std::string(what.primitive),
                            transfer ? "" : std::string(what.dtype), what.bytes,
                            transfer ? 0 : groups_[place.group].size, several));
}

void CollectiveValues::keep(const Place& place, const Seen& seen, bool several, Made& made) const {
  const CostSource source{CostSource::Kind::kImported, "", seen.what.beside, seen.clock, true};
  made.costs[source][key_of(place, seen.what, several)].add(seen.what.duration_ns);
  ++made.waiting;
}

void CollectiveValues::join(const Place& place, const ByRank& ranks, bool several, Made& made) const {
  const std::size_t count = ranks.begin()->second.size();
  for (std::size_t i = 0; i < count; ++i) {
    const TracedCollective& any = ranks.begin()->second[i].what;
    std::int64_t shortest_ns = any.duration_ns;
    Beside beside = any.beside;
    for (const auto& [rank, seen] : ranks) {
      shortest_ns = std::min(shortest_ns, seen[i].what.duration_ns);
      beside = together(beside, seen[i].what.beside);
    }
    const bool transfer = place.from >= 0;
    const bool known = transfer ? ranks.at(place.from)[i].what.duration_ns <= ranks.at(place.to)[i].what.duration_ns
                                : ends_together(any.primitive);
    if (!known) {
      for (const auto& [rank, seen] : ranks) keep(place, seen[i], several, made);
      continue;
    }
    const CostSource source{CostSource::Kind::kImported, "", beside, Clock::kRanks};
    made.costs[source][key_of(place, any, several)].add(shortest_ns);
  }
}

CollectiveValues::Made CollectiveValues::make(const RankNodes& nodes) const {
  Made made;
  for (const auto& [place, ranks] : places_) {
    std::vector<std::int32_t> present;
    for (const auto& [rank, seen] : ranks) present.push_back(rank);
    const TracedGroup pair{"", {std::min(place.from, place.to), std::max(place.from, place.to)}, 2};
    const auto several = nodes.on_several(place.from >= 0 ? pair : groups_[place.group], present);
    if (!several) {
      for (const auto& [rank, seen] : ranks) made.nowhere += seen.size();
    } else if (is_whole(place, ranks)) {
      join(place, ranks, *several, made);
    } else {
      for (const auto& [rank, seen] : ranks) {
        for (const Seen& one : seen) keep(place, one, *several, made);
      }
    }
  }
  return made;
}

}  // namespace trimtab::published
