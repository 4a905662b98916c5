#include "costs/collective_samples.hpp"

#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "schema/nccl.hpp"

namespace trimtab::agent {

namespace {

// What a record says where it could not say more.
constexpr std::uint16_t kCapped = 0xffff;

std::optional<std::uint64_t> parse_communicator(std::string_view text) {
  std::uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, id, 16);
  if (text.size() != 16 || parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
  return id;
}

std::optional<CollectiveStamp> stamp_of(const RangeRecord& record) {
  const std::string function(record.name);
  const auto communicator = parse_communicator(record.domain);
  CollectiveStamp stamp;
  stamp.function = nccl::index_of_theirs(nccl::kFunctions, function.c_str());
  stamp.ranks = record.detail[0];
  stamp.rank = record.detail[1];
  stamp.nodes = record.detail[2];
  const bool fits = communicator && stamp.function != nccl::kUnknown && stamp.ranks >= 2 && stamp.ranks < kCapped &&
                    stamp.rank < stamp.ranks && record.payload > 0;
  if (!fits) return std::nullopt;
  stamp.communicator = *communicator;
  stamp.algorithm = static_cast<std::uint8_t>(record.detail[3]);
  stamp.protocol = static_cast<std::uint8_t>(record.detail[4]);
  stamp.channels = record.depth;
  (record.kind == record::kP2p ? stamp.peer : stamp.sequence) = record.thread;
  stamp.bytes = record.payload;
  stamp.begin_ns = record.begin_ns;
  stamp.end_ns = record.end_ns;
  return stamp;
}

bool fits_between_two(const CollectiveStamp& stamp) {
  return nccl::between_two(stamp.function) && stamp.peer < stamp.ranks && stamp.peer != stamp.rank && stamp.gpu_ahead;
}

}  // namespace

void CollectiveSamples::add(const RangeRecord& record, const std::optional<ClockDifference::Offset>& gpu_ahead) {
  if (record.kind != kind_) return;
  ++counters_.seen;
  auto stamp = stamp_of(record);
  if (stamp) stamp->gpu_ahead = gpu_ahead;
  if (!stamp || (kind_ == record::kP2p && !fits_between_two(*stamp))) {
    ++counters_.unfit;
    return;
  }
  if (!last_.contains(stamp->communicator) && last_.size() >= kMostCommunicators) {
    for (auto& [id, last] : last_) let_go(last);
    last_.clear();
  }
  Last& last = last_[stamp->communicator];
  const bool together = last.stamp.begin_ns == stamp->begin_ns;
  last.fused = last.fused || together;
  let_go(last);
  last = {*stamp, together || (record.flags & record::kFused) != 0, true};
}

void CollectiveSamples::let_go(Last& last) {
  if (!std::exchange(last.waits, false)) return;
  if (last.fused) {
    ++counters_.fused;
  } else {
    keep(last.stamp);
  }
}

bool CollectiveSamples::sampled(const CollectiveStamp& stamp) const {
  if (kind_ == record::kP2p) {
    return nccl::in_window(stamp.end_ns - static_cast<std::uint64_t>(stamp.gpu_ahead->ns), level_);
  }
  return nccl::in_sample(nccl::collective_hash(stamp.communicator, stamp.function, stamp.sequence), level_);
}

void CollectiveSamples::keep(const CollectiveStamp& stamp) {
  if (!sampled(stamp)) return;
  kept_.push_back(stamp);
  while (kept_.size() > kMost && level_ < nccl::kMaxSampleLevel) {
    ++level_;
    std::erase_if(kept_, [this](const CollectiveStamp& one) { return !sampled(one); });
  }
  if (kept_.size() > kMost) kept_.pop_back();
}

std::vector<CollectiveStamp> CollectiveSamples::take() {
  for (auto& [id, last] : last_) let_go(last);
  adapt(kept_.size());
  counters_.taken += kept_.size();
  return std::exchange(kept_, {});
}

void CollectiveSamples::adapt(std::size_t taken) {
  quiet_ = taken < kMost / 4 ? quiet_ + 1 : 0;
  if (quiet_ < kQuietTakes || level_ == 0) return;
  quiet_ = 0;
  --level_;
}

}  // namespace trimtab::agent
