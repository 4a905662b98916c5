#include "records/step_shares.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kComputing = 1;
constexpr std::size_t kCommunicating = 2;
constexpr std::size_t kCopying = 4;

}  // namespace

// From now_ns_ to `now_ns` the set of what runs changes at most three times.
void StepSweep::advance(std::uint64_t now_ns) {
  while (now_ns_ < now_ns) {
    std::size_t mask = 0;
    std::uint64_t next = now_ns;
    for (std::size_t i = 0; i < kActivities; ++i) {
      if (until_[i] <= now_ns_) continue;
      mask |= std::size_t{1} << i;
      next = std::min(next, until_[i]);
    }
    by_mask_[mask] += next - now_ns_;
    now_ns_ = next;
  }
}

void StepSweep::add(const DeviceInterval& interval) {
  advance(interval.begin_ns);
  const auto activity = static_cast<std::size_t>(interval.activity);
  until_[activity] = std::max(until_[activity], interval.end_ns);
  Stream* stream = stream_of(interval.stream);
  if (stream == nullptr) return;
  const std::uint64_t from = std::max({interval.begin_ns, stream->until[activity], begin_ns_});
  if (interval.end_ns > from) stream->busy[activity] += interval.end_ns - from;
  stream->until[activity] = std::max(stream->until[activity], interval.end_ns);
}

StepSweep::Stream* StepSweep::stream_of(std::uint32_t number) {
  for (Stream& stream : streams_) {
    if (stream.number == number) return &stream;
  }
  if (streams_.size() >= kMostStreams) {
    ++left_out_;
    return nullptr;
  }
  streams_.push_back({number, {}, {}});
  return &streams_.back();
}

StepShares StepSweep::end(std::uint64_t end_ns) {
  advance(end_ns);
  StepShares shares;
  shares.begin_ns = begin_ns_;
  shares.end_ns = end_ns;
  for (std::size_t mask = 0; mask < by_mask_.size(); ++mask) {
    const std::uint64_t time = by_mask_[mask];
    const bool computing = (mask & kComputing) != 0;
    const bool communicating = (mask & kCommunicating) != 0;
    const bool copying = (mask & kCopying) != 0;
    if (computing) shares.computation_ns += time;
    if (communicating) (computing ? shares.overlapped_communication_ns : shares.exposed_communication_ns) += time;
    if (copying) (computing || communicating ? shares.overlapped_copy_ns : shares.exposed_copy_ns) += time;
    if (mask == 0) shares.idle_ns += time;
  }
  by_mask_.fill(0);
  begin_ns_ = end_ns;
  for (Stream& stream : streams_) {
    // What runs beyond the end belongs to the next step.
    Until beyond{};
    for (std::size_t i = 0; i < kActivities; ++i) {
      if (stream.until[i] > end_ns) beyond[i] = std::min(stream.until[i] - end_ns, stream.busy[i]);
      stream.busy[i] -= beyond[i];
    }
    if (stream.busy[0] + stream.busy[1] + stream.busy[2] > 0) {
      shares.streams.push_back({stream.number, stream.busy[0], stream.busy[1], stream.busy[2]});
    }
    stream.busy = beyond;
  }
  std::erase_if(streams_, [end_ns](const Stream& stream) {
    return std::ranges::all_of(stream.until, [end_ns](std::uint64_t until) { return until <= end_ns; });
  });
  return shares;
}

}  // namespace trimtab::agent
