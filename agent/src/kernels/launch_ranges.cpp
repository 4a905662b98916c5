#include "kernels/launch_ranges.hpp"

#include <algorithm>

#include "kernels/kernel_attribution.hpp"

namespace trimtab::agent {

namespace {

using Kind = RangeName::Kind;

constexpr std::size_t kMostThreads = 256;
constexpr std::size_t kMostEnded = 1024;  // of a thread
constexpr std::size_t kMostSteps = 256;
constexpr int kMostAround = 16;

}  // namespace

void LaunchRanges::add(const RangeRecord& record) {
  const Kind kind = record.range.kind;
  if (kind == Kind::kStep) {
    if (steps_.size() >= kMostSteps) steps_.erase(steps_.begin(), steps_.begin() + kMostSteps / 2);
    steps_.push_back({record.begin_ns, record.end_ns, record.thread, last_pass_ns_});
  }
  if (kind == Kind::kOperator) {
    last_pass_ns_ = std::max(last_pass_ns_, record.end_ns);
    passing_ = record.thread;
  }
  const std::uint32_t id = KernelAttribution::id_of(record);
  if (id != 0 && (record.flags & record::kCrossThread) == 0) keep(record, id);
}

void LaunchRanges::keep(const RangeRecord& record, std::uint32_t id) {
  if (ranges_.empty()) ranges_.resize(most_);
  Range& range = ranges_[id & (most_ - 1)];
  range = {id, 0, record.thread, record.range.kind, record.range.what == "send", record.end_ns, record.payload};
  if (ended_.size() >= kMostThreads && !ended_.contains(record.thread)) ended_.clear();
  std::vector<Ended>& ended = ended_[record.thread];
  // Ranges of a thread end from the inside out: those within this one are the last.
  while (!ended.empty() && ended.back().depth > record.depth && ended.back().begin_ns >= record.begin_ns) {
    Range& inner = ranges_[ended.back().id & (most_ - 1)];
    if (inner.id == ended.back().id) inner.around = id;
    ended.pop_back();
  }
  if (record.depth == 0) return;
  if (ended.size() >= kMostEnded) ended.erase(ended.begin(), ended.begin() + kMostEnded / 2);
  ended.push_back({id, record.depth, record.begin_ns});
}

const LaunchRanges::Range* LaunchRanges::find(std::uint32_t id) const {
  if (id == 0 || ranges_.empty()) return nullptr;
  const Range& range = ranges_[id & (most_ - 1)];
  return range.id == id ? &range : nullptr;
}

template <typename Wanted>
const LaunchRanges::Range* LaunchRanges::around(std::uint32_t id, const Wanted& wanted) const {
  const Range* range = find(id);
  for (int i = 0; i < kMostAround && range != nullptr; ++i, range = find(range->around)) {
    if (wanted(*range)) return range;
  }
  return nullptr;
}

std::optional<LaunchRanges::Transfer> LaunchRanges::transfer_of(std::uint32_t range) const {
  const Range* transfer = around(range, [](const Range& one) { return one.kind == Kind::kTransfer; });
  return transfer == nullptr ? std::nullopt : std::optional(Transfer{transfer->sends, transfer->payload});
}

Purpose LaunchRanges::purpose_of(std::uint32_t range) const {
  if (around(range, [](const Range& one) { return one.kind == Kind::kOperator; }) != nullptr) return Purpose::kOwn;
  const Range* known = around(range, [](const Range& one) { return one.kind != Kind::kOther; });
  if (known == nullptr) return Purpose::kUnknown;
  switch (known->kind) {
    case Kind::kTransfer:
      return Purpose::kTransfer;
    case Kind::kOptimizer:
      return Purpose::kGradients;
    case Kind::kCollective:
      return between_passes(*known);
    default:
      return Purpose::kUnknown;
  }
}

// A collective of the step's own thread with a pass still to come changes the layout. Of a step that has not ended the
// passes that are still to come may not be told yet.
Purpose LaunchRanges::between_passes(const Range& range) const {
  const auto step = std::ranges::lower_bound(steps_, range.end_ns, {}, &Step::end_ns);
  if (step == steps_.end()) {
    return range.thread == passing_ && last_pass_ns_ > range.end_ns ? Purpose::kLayout : Purpose::kUnknown;
  }
  if (step->begin_ns > range.end_ns) return Purpose::kUnknown;
  return range.thread == step->thread && step->last_pass_ns > range.end_ns ? Purpose::kLayout : Purpose::kGradients;
}

void WireTimes::add(const LaunchRanges::Transfer& transfer, std::uint64_t length_ns) {
  const std::pair key{transfer.peer, transfer.bytes};
  if (transfer.bytes <= 0 || (times_.size() >= kMost && !times_.contains(key))) return;
  std::deque<std::uint64_t>& latest = transfer.sends ? times_[key].sent : times_[key].received;
  if (latest.size() >= kLatest) latest.pop_front();
  latest.push_back(length_ns);
}

std::optional<std::uint64_t> WireTimes::of(const LaunchRanges::Transfer& transfer) const {
  const auto known = times_.find({transfer.peer, transfer.bytes});
  if (known == times_.end() || known->second.sent.size() < kLeast) return std::nullopt;
  const auto& [sent, received] = known->second;
  std::vector<std::uint64_t> order(sent.begin(), sent.end());
  std::ranges::sort(order);
  const double most = (1 + kAgreeWithin) * static_cast<double>(order.front());
  const auto within = [most](std::uint64_t ns) { return static_cast<double>(ns) <= most; };
  const auto agree = static_cast<std::size_t>(std::ranges::partition_point(order, within) - order.begin());
  const bool waited = std::ranges::any_of(received, [&](std::uint64_t ns) {
    return (1 + kAgreeWithin) * static_cast<double>(ns) < static_cast<double>(order.front());
  });
  return agree < kAgree || waited ? std::nullopt : std::optional(order[agree / 2]);
}

}  // namespace trimtab::agent
