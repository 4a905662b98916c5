#include "records/step_shares.hpp"

#include <bit>

namespace trimtab::agent {

namespace {

constexpr std::size_t kMostWires = 64;

}  // namespace

StepParts& StepParts::operator+=(const StepParts& other) {
  for (std::uint64_t StepParts::*const part :
       {&StepParts::own_ns, &StepParts::layout_ns, &StepParts::gradients_ns, &StepParts::wire_ns, &StepParts::bubble_ns,
        &StepParts::unsplit_ns, &StepParts::unknown_ns, &StepParts::launching_ns, &StepParts::data_ns,
        &StepParts::unjudged_ns}) {
    this->*part += other.*part;
  }
  return *this;
}

// From now_ns_ to `now_ns` the set of what runs changes a few times at most.
void StepSweep::advance(std::uint64_t now_ns) {
  while (now_ns_ < now_ns) {
    start_wires();
    std::size_t mask = 0;
    std::uint64_t next = now_ns;
    for (std::size_t i = 0; i < kWorks; ++i) {
      if (until_[i] <= now_ns_) continue;
      mask |= std::size_t{1} << i;
      next = std::min(next, until_[i]);
    }
    for (const auto& [begin_ns, end_ns] : wires_) next = std::min(next, begin_ns);
    by_mask_[mask] += next - now_ns_;
    if (mask == 0) idle(next);
    now_ns_ = next;
  }
}

void StepSweep::start_wires() {
  std::erase_if(wires_, [this](const auto& wire) {
    if (wire.first > now_ns_) return false;
    run(kWire, wire.second);
    return true;
  });
}

// From now_ns_ on, and the device may have been idle for longer: what ran last says since when.
void StepSweep::idle(std::uint64_t until_ns) {
  const HostWaits::Times waited = waits_.within(now_ns_, until_ns);
  idling_.data_ns += waited.data_ns;
  const std::uint64_t rest = until_ns - now_ns_ - waited.data_ns;
  if (!handed_out_ns_) {
    idling_.unjudged_ns += rest;
  } else if (*handed_out_ns_ > *std::ranges::max_element(until_)) {
    idling_.launching_ns += rest - waited.device_ns;
  }
}

void StepSweep::add(const DeviceInterval& interval, const SweptCommunication& communication) {
  advance(interval.begin_ns);
  const auto activity = static_cast<std::size_t>(interval.activity);
  switch (interval.activity) {
    case Activity::kComputation:
      run(kComputes, interval.end_ns);
      break;
    case Activity::kCopy:
      run(kCopies, interval.end_ns);
      break;
    case Activity::kCommunication:
      constexpr std::array<Work, 5> kWorkOf{kOwn, kLayout, kUnsplit, kGradients, kUnknown};
      if (communication.purpose == Purpose::kTransfer) {
        run_transfer(interval, communication.wire_ns);
      } else {
        run(kWorkOf[static_cast<std::size_t>(communication.purpose)], interval.end_ns);
      }
      break;
  }
  Stream* stream = stream_of(interval.stream);
  if (stream == nullptr) return;
  const std::uint64_t from = std::max({interval.begin_ns, stream->until[activity], begin_ns_});
  if (interval.end_ns > from) stream->busy[activity] += interval.end_ns - from;
  stream->until[activity] = std::max(stream->until[activity], interval.end_ns);
}

void StepSweep::run_transfer(const DeviceInterval& interval, std::optional<std::uint64_t> wire_ns) {
  if (!wire_ns || wires_.size() >= kMostWires) return run(kUnsplit, interval.end_ns);
  const std::uint64_t wire_begin_ns = interval.end_ns - std::min(*wire_ns, interval.length_ns());
  run(kWaitsForPeer, wire_begin_ns);
  wires_.emplace_back(wire_begin_ns, interval.end_ns);
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

StepParts StepSweep::parts() const {
  constexpr std::array<std::uint64_t StepParts::*, kWorks> kPartOf{nullptr,
                                                                   &StepParts::own_ns,
                                                                   &StepParts::layout_ns,
                                                                   &StepParts::wire_ns,
                                                                   &StepParts::unsplit_ns,
                                                                   &StepParts::gradients_ns,
                                                                   &StepParts::unknown_ns,
                                                                   &StepParts::bubble_ns,
                                                                   nullptr};
  StepParts parts = idling_;
  for (std::size_t mask = 1; mask < by_mask_.size(); ++mask) {
    const auto first = static_cast<std::size_t>(std::countr_zero(mask));
    if (kPartOf[first] != nullptr) parts.*kPartOf[first] += by_mask_[mask];
  }
  return parts;
}

StepShares StepSweep::end(std::uint64_t end_ns) {
  constexpr std::size_t kComputing = std::size_t{1} << kComputes;
  constexpr std::size_t kCopying = std::size_t{1} << kCopies;
  constexpr std::size_t kCommunicating = kCopying - 1 - kComputing;
  advance(end_ns);
  StepShares shares;
  shares.begin_ns = begin_ns_;
  shares.end_ns = end_ns;
  shares.parts = parts();
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
  idling_ = {};
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
