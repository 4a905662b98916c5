#include "ring_writer.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace trimtab::inject {

namespace {

// More lost races in a row than this mean that the memory is broken, not that the threads are many.
constexpr int kMaxAttempts = 1024;

}  // namespace

RingWriter RingWriter::format(void* memory, const RingShape& shape, std::uint32_t pid) {
  auto* header = new (memory) record::RingHeader{};
  header->magic = record::kMagic;
  header->version = record::kVersion;
  header->header_bytes = sizeof(record::RingHeader);
  header->name_capacity = shape.names;
  header->slot_capacity = shape.slots;
  header->pid = pid;

  RingWriter writer;
  writer.header_ = header;
  writer.slots_ = reinterpret_cast<record::RecordSlot*>(writer.names() + shape.names);
  writer.mask_ = shape.slots - 1;
  for (std::uint64_t i = 0; i < shape.slots; ++i) writer.slots_[i].sequence.store(i, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  return writer;
}

record::NameEntry* RingWriter::names() const {
  return reinterpret_cast<record::NameEntry*>(header_ + 1);
}

RingWriter::Claim RingWriter::claim() const {
  std::uint64_t ticket = header_->head.load(std::memory_order_relaxed);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    record::RecordSlot& slot = slots_[ticket & mask_];
    const std::uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
    if (sequence == ticket) {
      if (header_->head.compare_exchange_weak(ticket, ticket + 1, std::memory_order_relaxed)) return {&slot, ticket};
    } else if (static_cast<std::int64_t>(sequence - ticket) < 0) {
      break;  // full: the consumer has not freed this slot since the last lap
    } else {
      ticket = header_->head.load(std::memory_order_relaxed);
    }
  }
  header_->dropped.fetch_add(1, std::memory_order_relaxed);
  return {};
}

bool RingWriter::commit(const Claim& claim, const RecordFields& fields) {
  record::RecordSlot& slot = *claim.slot;
  slot.begin_ns = fields.begin_ns;
  slot.end_ns = fields.end_ns;
  slot.payload = fields.payload;
  slot.name = fields.name;
  slot.domain = fields.domain;
  slot.thread = fields.thread;
  slot.kind = fields.kind;
  slot.flags = fields.flags;
  slot.depth = fields.depth;
  std::copy(std::begin(fields.detail), std::end(fields.detail), slot.detail);
  // Fails when the consumer gave up waiting for this slot while we were suspended; it has counted the record as
  // skipped.
  std::uint64_t turn = claim.ticket;
  return slot.sequence.compare_exchange_strong(turn, claim.ticket + 1, std::memory_order_release,
                                               std::memory_order_relaxed);
}

// The consumer frees slots in their order: where the run's last one is free, so are those before it.
bool RingWriter::claim_run(std::uint32_t count, std::uint64_t& first) const {
  if (count > mask_ + 1) return false;
  first = header_->head.load(std::memory_order_relaxed);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const std::uint64_t last = first + count - 1;
    if (slots_[last & mask_].sequence.load(std::memory_order_acquire) == last) {
#ifdef __SANITIZE_THREAD__
      // It sees no order through the consumer's own mapping of this memory, only between a slot's writers.
      for (std::uint64_t i = first; i < last; ++i) (void)slots_[i & mask_].sequence.load(std::memory_order_acquire);
#endif
      if (header_->head.compare_exchange_weak(first, first + count, std::memory_order_relaxed)) return true;
      continue;
    }
    const std::uint64_t head = header_->head.load(std::memory_order_relaxed);
    if (head == first) return false;
    first = head;
  }
  return false;
}

std::uint32_t RingWriter::publish(const RecordFields* records, std::uint32_t count) const {
  std::uint32_t published = 0;
  std::uint64_t first = 0;
  if (count != 0 && claim_run(count, first)) {
    for (std::uint32_t i = 0; i < count; ++i) {
      published += commit({&slots_[(first + i) & mask_], first + i}, records[i]) ? 1 : 0;
    }
    return published;
  }
  // Nearly full: one by one, as many as fit.
  for (std::uint32_t i = 0; i < count; ++i) {
    const Claim claimed = claim();
    if (claimed.slot == nullptr) {
      header_->dropped.fetch_add(count - i - 1, std::memory_order_relaxed);  // claim() has counted this one
      break;
    }
    published += commit(claimed, records[i]) ? 1 : 0;
  }
  return published;
}

bool RingWriter::publish(const RecordFields& fields) const {
  const Claim claimed = claim();
  return claimed.slot != nullptr && commit(claimed, fields);
}

}  // namespace trimtab::inject
