#pragma once

// The producers' end of the record ring (schema/record.hpp): Vyukov's bounded queue in lent memory. Any number of
// threads may publish; nobody waits: a full ring drops the record and counts it, and so does a memory that somebody
// else has scribbled over.

#include <cstddef>
#include <cstdint>

#include "schema/record.hpp"

namespace trimtab::inject {

struct RecordFields {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::int64_t payload = 0;
  std::uint32_t name = 0;
  std::uint32_t domain = 0;
  std::uint32_t thread = 0;
  std::uint16_t kind = record::kRange;
  std::uint16_t flags = 0;
  std::uint16_t depth = 0;
  std::uint16_t detail[7] = {};
};

struct RingShape {
  std::uint32_t slots = 65536;  // a power of two
  std::uint32_t names = 4096;   // a power of two
  [[nodiscard]] constexpr std::size_t bytes() const {
    return sizeof(record::RingHeader) + names * sizeof(record::NameEntry) + slots * sizeof(record::RecordSlot);
  }
};

class RingWriter {
 public:
  constexpr RingWriter() = default;

  // Lays a ring out in `memory`. REQUIRES: shape.bytes() zeroed bytes, aligned to 64, which outlive the writer.
  static RingWriter format(void* memory, const RingShape& shape, std::uint32_t pid);

  // False when the ring is full, or when the consumer gave the slot up before we were done.
  bool publish(const RecordFields& fields) const;

  // publish() in its two halves. A claim without a commit is a producer that died or was suspended.
  struct Claim {
    record::RecordSlot* slot = nullptr;  // nullptr: the ring is full, which has been counted
    std::uint64_t ticket = 0;
  };
  [[nodiscard]] Claim claim() const;
  static bool commit(const Claim& claim, const RecordFields& fields);

  // Publishes records[0, count) with one claim where there is room for all. Returns how many were published; the others
  // are counted as dropped. REQUIRES: count <= kMaxBatch.
  static constexpr std::uint32_t kMaxBatch = 64;
  std::uint32_t publish(const RecordFields* records, std::uint32_t count) const;

  [[nodiscard]] record::RingHeader& header() const { return *header_; }
  [[nodiscard]] record::NameEntry* names() const;

 private:
  [[nodiscard]] bool claim_run(std::uint32_t count, std::uint64_t& first) const;

  record::RingHeader* header_ = nullptr;
  record::RecordSlot* slots_ = nullptr;
  std::uint64_t mask_ = 0;  // our own: the header's copy is shared with the consumer
};

}  // namespace trimtab::inject
