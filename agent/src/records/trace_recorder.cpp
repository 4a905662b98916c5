#include "records/trace_recorder.hpp"

#include <cmath>

namespace trimtab::agent {

namespace {

constexpr double kMostSeconds = 600;
constexpr std::uint32_t kMostSteps = 10'000;
constexpr std::uint64_t kSecondNs = 1'000'000'000;
constexpr std::uint64_t kPatienceNs = 120 * kSecondNs;
constexpr std::uint64_t kLongestFullDetailNs = 600 * kSecondNs;  // what a collector grants
constexpr std::uint64_t kHostLingerNs = kSecondNs / 2;
constexpr std::uint64_t kDeviceLingerNs = 3 * kSecondNs;
constexpr std::uint64_t kDefaultBytes = std::uint64_t{256} << 20;

RingTraceOrder order_of(const wire::TraceStart& asked, bool on_device, std::uint64_t now) {
  RingTraceOrder order;
  order.from_ns = now;
  const double seconds = std::isfinite(asked.seconds()) ? std::clamp(asked.seconds(), 0.0, kMostSeconds) : 0;
  order.steps = std::min(asked.steps(), kMostSteps);
  if (order.steps == 0) order.length_ns = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(seconds * 1e9));
  order.patience_ns = kPatienceNs;
  order.linger_ns = on_device ? kDeviceLingerNs : kHostLingerNs;
  order.max_bytes = asked.max_bytes() > 0 ? asked.max_bytes() : kDefaultBytes;
  return order;
}

std::uint64_t detail_until(const RingTraceOrder& order) {
  const std::uint64_t length = order.length_ns > 0 ? order.length_ns : order.patience_ns;
  return order.from_ns + std::min(length + order.linger_ns, kLongestFullDetailNs);
}

// After which a trace is over whatever the wall clock says.
Nanoseconds longest(const RingTraceOrder& order) {
  constexpr std::uint64_t kSlackNs = kSecondNs;
  const std::uint64_t length = order.length_ns > 0 ? order.length_ns : order.patience_ns;
  return Nanoseconds(static_cast<std::int64_t>(length + order.linger_ns + kSlackNs));
}

}  // namespace

void TraceRecorder::start(const wire::TraceStart& asked) {
  if (traces_.contains(asked.id())) return;
  Trace trace;
  if (traces_.size() >= kMostTraces) {
    wire::TracedRank refusal;
    refusal.set_remark("this node records " + std::to_string(kMostTraces) + " traces already");
    trace.done.push_back(refusal);
  } else {
    for (const Ring& ring : surroundings_.rings(asked.job())) {
      wire::TraceChunk chunk;
      chunk.set_id(asked.id());
      chunk.set_rank(ring.rank.rank);
      chunk.set_variant(ring.rank.variant);
      chunk.set_pid(ring.pid);
      chunk.set_node(surroundings_.node);
      const auto added = trace.rings.emplace(ring.peer, RingTrace(order_of(asked, ring.on_device, now()), chunk)).first;
      for (const RangeRecord& name : ring.names) (void)added->second.add(name);
    }
  }
  Trace& kept = traces_.emplace(asked.id(), std::move(trace)).first->second;
  kept.detail_until_ns = detail_until(order_of(asked, true, now()));
  kept.deadline = surroundings_.clock.monotonic() + longest(order_of(asked, true, now()));
  for (const auto& [peer, ring] : kept.rings) ask_detail(peer);
  if (kept.rings.empty()) end(kept, asked.id());
}

void TraceRecorder::stop(std::uint64_t id) {
  const auto found = traces_.find(id);
  if (found == traces_.end()) return;
  for (auto& [peer, ring] : found->second.rings) ring.stop("it was stopped");
}

void TraceRecorder::records(net::LocalPeerId peer, std::span<const RangeRecord> records) {
  for (auto& [id, trace] : traces_) {
    const auto ring = trace.rings.find(peer);
    if (ring == trace.rings.end()) continue;
    for (const RangeRecord& record : records) {
      if (auto chunk = ring->second.add(record)) put(trace, id, std::move(*chunk));
    }
  }
}

void TraceRecorder::dropped(net::LocalPeerId peer, std::uint64_t count) {
  for (auto& [id, trace] : traces_) {
    if (const auto ring = trace.rings.find(peer); ring != trace.rings.end()) ring->second.dropped(count);
  }
}

void TraceRecorder::step_found(net::LocalPeerId peer, std::uint64_t end_ns) {
  for (auto& [id, trace] : traces_) {
    if (const auto ring = trace.rings.find(peer); ring != trace.rings.end()) ring->second.step_found(end_ns, now());
  }
}

void TraceRecorder::ring_ended(net::LocalPeerId peer) {
  for (auto& [id, trace] : traces_) {
    const auto ring = trace.rings.find(peer);
    if (ring == trace.rings.end()) continue;
    ring->second.stop("the process ended");
    end_ring(trace, id, ring);
  }
}

void TraceRecorder::tick() {
  for (auto entry = traces_.begin(); entry != traces_.end();) {
    Trace& trace = entry->second;
    const bool late = surroundings_.clock.monotonic() > trace.deadline;
    for (auto ring = trace.rings.begin(); ring != trace.rings.end();) {
      const auto next = std::next(ring);
      if (late && !ring->second.over(now())) ring->second.stop("the node's clock was set back");
      if (ring->second.over(now())) end_ring(trace, entry->first, ring);
      ring = next;
    }
    if (trace.rings.empty() && !trace.ended) end(trace, entry->first);
    entry = send_waiting(trace) && trace.ended ? traces_.erase(entry) : std::next(entry);
  }
}

void TraceRecorder::end_ring(Trace& trace, std::uint64_t id, std::map<net::LocalPeerId, RingTrace>::iterator ring) {
  if (auto chunk = ring->second.last()) put(trace, id, std::move(*chunk));
  trace.done.push_back(ring->second.account(now()));
  const net::LocalPeerId peer = ring->first;
  trace.rings.erase(ring);
  ask_detail(peer);
}

void TraceRecorder::ask_detail(net::LocalPeerId peer) {
  std::uint64_t until_ns = 0;
  for (const auto& [id, trace] : traces_) {
    if (trace.rings.contains(peer)) until_ns = std::max(until_ns, trace.detail_until_ns);
  }
  surroundings_.full_detail(peer, until_ns);
}

void TraceRecorder::link_closed() {
  const auto closed = std::exchange(traces_, {});
  for (const auto& [id, trace] : closed) {
    for (const auto& [peer, ring] : trace.rings) surroundings_.full_detail(peer, 0);
  }
}

void TraceRecorder::put(Trace& trace, std::uint64_t id, wire::TraceChunk chunk) {
  const std::size_t bytes = chunk.ByteSizeLong();
  (void)send_waiting(trace);
  if (trace.queued_bytes + bytes > kMostQueuedBytes) {
    trace.dropped[chunk.rank()] += static_cast<std::uint64_t>(chunk.records_size());
    return;
  }
  chunk.set_id(id);
  trace.queued_bytes += bytes;
  wire::FromAgent message;
  *message.mutable_trace_chunk() = std::move(chunk);
  trace.queue.push_back(std::move(message));
}

void TraceRecorder::end(Trace& trace, std::uint64_t id) {
  trace.ended = true;
  wire::FromAgent message;
  wire::TraceEnd& account = *message.mutable_trace_end();
  account.set_id(id);
  account.set_node(surroundings_.node);
  for (wire::TracedRank& rank : trace.done) {
    const auto lost = trace.dropped.find(rank.rank());
    if (lost != trace.dropped.end()) rank.set_dropped(rank.dropped() + std::exchange(lost->second, 0));
    *account.add_ranks() = rank;
  }
  trace.queue.push_back(std::move(message));
}

bool TraceRecorder::send_waiting(Trace& trace) {
  while (!trace.queue.empty()) {
    if (!surroundings_.send(trace.queue.front())) return false;
    if (trace.queue.front().has_trace_chunk()) {
      trace.queued_bytes -= trace.queue.front().trace_chunk().ByteSizeLong();
    }
    trace.queue.pop_front();
  }
  return true;
}

void RingTrace::reset() {
  chunk_ = empty_;
  numbers_.clear();
  bytes_ += empty_.ByteSizeLong();
}

// Instants without a time of their own (kLaunch) belong to whatever is recorded now.
bool RingTrace::wanted(const RangeRecord& record) const {
  const std::uint64_t from = order_.length_ns > 0 ? order_.from_ns : begin_ns_.value_or(~std::uint64_t{0});
  const std::uint64_t until =
      order_.length_ns > 0 ? order_.from_ns + order_.length_ns : end_ns_.value_or(~std::uint64_t{0});
  if (record.kind == record::kThreadName || record.kind == record::kDevice) return true;
  if (record.end_ns == 0) return order_.length_ns > 0 || begin_ns_.has_value();
  return record.end_ns > from && record.begin_ns < until;
}

std::optional<wire::TraceChunk> RingTrace::add(const RangeRecord& record) {
  if (stopped_) return std::nullopt;
  const bool step = record.range.kind == RangeName::Kind::kStep;
  if (step && !std::exchange(ranges_, true)) begin_ns_.reset();
  const bool wanted_now = wanted(record);
  if (step && record.end_ns > order_.from_ns) step_ended(record.end_ns);
  if (!wanted_now) return std::nullopt;
  if (bytes_ >= order_.max_bytes) {
    truncated_ = true;
    ++dropped_;
    return std::nullopt;
  }
  wire::TraceRecord& packed = *chunk_.add_records();
  packed.set_kind(record.kind);
  packed.set_flags(record.flags);
  packed.set_name(number_of(record.name));
  packed.set_domain(record::domain_is_value(record.kind) ? record.domain_value : number_of(record.domain));
  packed.set_thread(record.thread);
  packed.set_depth(record.depth);
  packed.set_begin_ns(static_cast<std::int64_t>(record.begin_ns - chunk_.base_ns()));
  packed.set_duration_ns(record.end_ns - record.begin_ns);
  packed.set_payload(record.payload);
  std::size_t details = record.detail.size();
  while (details > 0 && record.detail[details - 1] == 0) --details;
  for (std::size_t i = 0; i < details; ++i) packed.add_detail(record.detail[i]);
  ++records_;
  bytes_ += packed.ByteSizeLong();
  return chunk_.records_size() >= kChunkRecords ? full() : std::nullopt;
}

std::uint32_t RingTrace::number_of(std::string_view text) {
  const auto [entry, fresh] = numbers_.emplace(text, chunk_.names_size());
  if (fresh) {
    chunk_.add_names(std::string(text));
    bytes_ += text.size();
  }
  return entry->second;
}

void RingTrace::step_ended(std::uint64_t end_ns) {
  if (order_.length_ns > 0 || end_ns_) return;
  if (!begin_ns_) {
    begin_ns_ = end_ns;
  } else if (++steps_ >= order_.steps) {
    end_ns_ = end_ns;
  }
}

void RingTrace::step_found(std::uint64_t end_ns, std::uint64_t now_ns) {
  if (order_.length_ns > 0 || ranges_) return;
  if (!begin_ns_) begin_ns_ = now_ns;
  if (end_ns >= *begin_ns_ && std::exchange(in_step_, true)) step_ended(end_ns);
}

bool RingTrace::over(std::uint64_t now_ns) const {
  if (stopped_) return true;
  if (order_.length_ns > 0) return now_ns > order_.from_ns + order_.length_ns + order_.linger_ns;
  if (end_ns_) return now_ns > *end_ns_ + order_.linger_ns;
  return now_ns > order_.from_ns + order_.patience_ns;
}

std::optional<wire::TraceChunk> RingTrace::full() {
  wire::TraceChunk done = std::exchange(chunk_, {});
  reset();
  return done;
}

wire::TracedRank RingTrace::account(std::uint64_t now_ns) const {
  wire::TracedRank rank;
  rank.set_rank(empty_.rank());
  rank.set_records(records_);
  rank.set_dropped(dropped_);
  rank.set_ring_dropped(ring_dropped_);
  rank.set_truncated(truncated_);
  rank.set_steps(steps_);
  if (stopped_) rank.set_remark(*stopped_);
  if (!stopped_ && order_.length_ns == 0 && !end_ns_ && over(now_ns)) {
    rank.set_remark(begin_ns_ ? "only " + std::to_string(steps_) + " of " + std::to_string(order_.steps) +
                                    " steps ended in time"
                              : "no step was seen; ask for seconds instead");
  }
  return rank;
}

}  // namespace trimtab::agent
