#include "ring_publication.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "recorder.hpp"

namespace trimtab::nccl {

namespace {

using inject::recorder;
using inject::RingNames;

constexpr std::uint32_t kFunctionNames = count_of(kFunctions);

// By function: ring generation << 32 | index of its name in that ring.
std::atomic<std::uint64_t> function_names[kFunctionNames];

std::uint32_t index_of(std::atomic<std::uint64_t>& known, const RingNames& names, const char* text,
                       std::size_t length) {
  const std::uint64_t value = known.load(std::memory_order_relaxed);
  if (value >> 32 == names.generation) return static_cast<std::uint32_t>(value);
  const std::uint32_t index = names.table->intern(text, length);
  if (index == 0) {
    recorder.session.ring().header().names_dropped.fetch_add(1, std::memory_order_relaxed);
  } else {
    known.store(std::uint64_t{names.generation} << 32 | index, std::memory_order_relaxed);
  }
  return index;
}

std::uint32_t function_index(std::uint8_t function, const RingNames& names) {
  if (function >= kFunctionNames) return 0;
  const char* const text = kFunctions[function].theirs;
  return index_of(function_names[function], names, text, std::strlen(text));
}

std::uint32_t communicator_index(std::uint64_t id, Communicator& communicator, const RingNames& names) {
  char text[16];
  for (int digit = 0; digit < 16; ++digit) text[digit] = "0123456789abcdef"[(id >> (60 - 4 * digit)) & 0xf];
  std::atomic<std::uint64_t> unknown{0};
  const bool same =
      communicator.taken.load(std::memory_order_acquire) != 0 && communicator.id.load(std::memory_order_relaxed) == id;
  return index_of(same ? communicator.ring_name : unknown, names, text, sizeof(text));
}

std::uint16_t capped(std::uint32_t value) {
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(value, 0xffff));
}

void publish_pair(const ClockPair& pair, record::ClockBound bound, std::uint32_t domain) {
  if (pair.gpu_ns == 0) return;
  inject::RecordFields fields;
  fields.kind = record::kClock;
  fields.domain = domain;
  fields.begin_ns = fields.end_ns = pair.gpu_ns;
  fields.payload = pair.difference;
  fields.flags = record::kPayloadValid;
  fields.detail[0] = bound;
  recorder.session.ring().publish(fields);
}

}  // namespace

void publish_to_ring(const CompletedCollective& completed, Communicator& communicator) {
  if (!recorder.session.recording()) return;
  const CollectiveFacts& facts = completed.facts;
  const RingNames names = recorder.session.names();
  inject::RecordFields fields;
  fields.kind = facts.p2p ? record::kP2p : record::kCollective;
  fields.name = function_index(facts.function, names);
  fields.domain = communicator_index(facts.communicator, communicator, names);
  fields.begin_ns = completed.begin_ns;
  fields.end_ns = completed.end_ns;
  fields.payload = facts.bytes;
  fields.thread = facts.sequence;
  fields.depth = facts.channels;
  fields.flags = static_cast<std::uint16_t>((facts.bytes > 0 ? record::kPayloadValid : 0) |
                                            (completed.fused ? record::kFused : 0));
  const std::uint16_t detail[] = {capped(facts.ranks), capped(facts.rank), capped(facts.nodes),
                                  facts.algorithm,     facts.protocol,     facts.datatype};
  std::copy(std::begin(detail), std::end(detail), fields.detail);
  const std::uint64_t now = inject::now_ns();
  ClockBounds bounds;
  // First: who reads the collective wants to know its clock.
  if (communicator.clocks.take(now, bounds)) {
    publish_pair(bounds.after, record::kReadAfter, fields.domain);
    publish_pair(bounds.before, record::kReadBefore, fields.domain);
  }
  recorder.session.ring().publish(fields);
  recorder.session.keep_connected(now);
}

}  // namespace trimtab::nccl
