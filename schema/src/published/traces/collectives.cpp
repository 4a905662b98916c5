#include "published/traces/collectives.hpp"

#include <algorithm>

#include "base/numbers.hpp"

namespace trimtab::published {

namespace {

constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostElements = std::int64_t{1} << 48;
// Computing for no more of a collective's time leaves it alone (docs/cost_model.md, "Which cost counts").
constexpr double kSlight = 0.02;

// "[0, 1, 2, ...]": up to what is no number.
std::vector<std::int32_t> ranks_of(std::string_view list) {
  std::vector<std::int32_t> ranks;
  while (!list.empty() && (list.front() == '[' || list.front() == ' ' || list.front() == ',')) {
    list.remove_prefix(1);
    const std::size_t end = std::min(list.find_first_of(",] "), list.size());
    const auto rank = parse_number<std::int32_t>(list.substr(0, end));
    if (rank && *rank >= 0) ranks.push_back(*rank);
    list.remove_prefix(end);
  }
  return ranks;
}

// Whether what goes in and what comes out are of one collective.
bool agree(TracedKind kind, std::int64_t in, std::int64_t out, std::int64_t ranks) {
  switch (kind) {
    case TracedKind::kAllReduce:
    case TracedKind::kAllToAll:
      return in == out;
    case TracedKind::kAllGather:
      return out == in * ranks;
    case TracedKind::kReduceScatter:
      return in == out * ranks;
    default:
      return true;
  }
}

// When a rank computed, as spans apart from each other, with the time computed before each.
class Computation {
 public:
  explicit Computation(const std::vector<TracedWork>& work) {
    for (const TracedWork& one : work) {
      if (one.kind != TracedKind::kComputation) continue;
      if (spans_.empty() || one.begin_ns > spans_.back().end_ns) {
        spans_.push_back({one.begin_ns, one.end_ns, total()});
      } else {
        spans_.back().end_ns = std::max(spans_.back().end_ns, one.end_ns);
      }
    }
  }
  [[nodiscard]] bool beside(std::int64_t begin_ns, std::int64_t end_ns) const {
    const auto busy = static_cast<double>(until(end_ns) - until(begin_ns));
    return busy > kSlight * static_cast<double>(end_ns - begin_ns);
  }

 private:
  struct Span {
    std::int64_t begin_ns;
    std::int64_t end_ns;
    std::int64_t before_ns;
  };
  [[nodiscard]] std::int64_t total() const {
    return spans_.empty() ? 0 : spans_.back().before_ns + spans_.back().end_ns - spans_.back().begin_ns;
  }
  [[nodiscard]] std::int64_t until(std::int64_t ns) const {
    const auto after = std::ranges::upper_bound(spans_, ns, {}, &Span::begin_ns);
    if (after == spans_.begin()) return 0;
    const Span& span = *std::prev(after);
    return span.before_ns + std::min(ns, span.end_ns) - span.begin_ns;
  }

  std::vector<Span> spans_;
};

std::int64_t step_at(const std::vector<TracedStep>& steps, std::int64_t ns) {
  const auto after = std::ranges::upper_bound(steps, ns, {}, &TracedStep::begin_ns);
  if (after == steps.begin()) return TracedCollective::kNotTold;
  const TracedStep& step = *std::prev(after);
  return ns < step.end_ns ? step.number : TracedCollective::kNotTold;
}

}  // namespace

std::uint32_t Collectives::add(const ChromeEvent& event, TracedKind kind, bool on_host) {
  const TracedType type = traced_type(on_host ? event.input_type : event.dtype);
  std::int64_t elements = on_host ? event.input_elements : event.in_elements;
  const bool between_two = kind == TracedKind::kSendReceive;
  if (between_two && !on_host) elements = std::max(elements, event.out_elements);
  if (kind == TracedKind::kCollective || type.bytes == 0 || elements <= 0 || elements > kMostElements) return 0;
  if (!on_host) {
    const bool whole = event.group_size >= 1 && event.group_size <= kMostRanks && event.out_elements <= kMostElements;
    if (!whole || !agree(kind, elements, event.out_elements, event.group_size)) return 0;
  }
  TracedCollective one;
  one.primitive = to_string(kind);
  one.dtype = type.name;
  one.bytes = elements * type.bytes;
  one.sequence = event.sequence;
  if (between_two && !on_host) {
    one.sends = event.target_rank >= 0;
    const std::int64_t peer = one.sends ? event.target_rank : event.source_rank;
    if (peer < 0 || peer > kMostRanks) return 0;
    one.peer = static_cast<std::int32_t>(peer);
  }
  if (between_two && on_host) return 0;  // it does not say with whom
  TracedGroup group;
  if (!on_host) group = {event.group_name, ranks_of(event.group_ranks), static_cast<std::int32_t>(event.group_size)};
  one.group = groups_.try_emplace(std::move(group), static_cast<std::uint32_t>(groups_.size())).first->second;
  all_.push_back(one);
  return static_cast<std::uint32_t>(all_.size());
}

void Collectives::tell(TracedRank& rank, bool one_group) {
  rank.groups.resize(groups_.size());
  for (const auto& [group, place] : groups_) rank.groups[place] = group;
  for (TracedGroup& group : rank.groups) {
    if (group.size == 0 && one_group && rank.world_size <= kMostRanks) {
      group.size = static_cast<std::int32_t>(rank.world_size);
    }
  }
  rank.collectives = std::move(all_);
  tell_times(rank);
}

void tell_times(TracedRank& rank) {
  const Computation computation(rank.work);
  std::vector<TracedCollective> told;
  for (TracedWork& one : rank.work) {
    if (!communicates(one.kind)) continue;
    const std::int64_t handed_out = one.launched_ns == TracedWork::kNotTold ? one.begin_ns : one.launched_ns;
    const bool sized = one.collective != 0 && rank.groups[rank.collectives[one.collective - 1].group].size > 0;
    if (!sized || one.end_ns == one.begin_ns) {
      one.collective = 0;
      ++rank.sizeless;
      continue;
    }
    TracedCollective collective = rank.collectives[one.collective - 1];
    collective.duration_ns = one.end_ns - one.begin_ns;
    collective.step = step_at(rank.steps, handed_out);
    collective.beside =
        computation.beside(one.begin_ns, one.end_ns) ? CostSource::Beside::kComputation : CostSource::Beside::kNothing;
    told.push_back(collective);
    one.collective = static_cast<std::uint32_t>(told.size());
  }
  rank.collectives = std::move(told);
}

}  // namespace trimtab::published
