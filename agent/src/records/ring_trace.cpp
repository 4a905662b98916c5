#include "records/ring_trace.hpp"

#include <utility>

namespace trimtab::agent {

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
  const bool step = record.kind == record::kRange && record.domain == "trimtab" && record.name == "step";
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

std::optional<wire::TraceChunk> RingTrace::last() {
  return chunk_.records_size() > 0 ? full() : std::nullopt;
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
