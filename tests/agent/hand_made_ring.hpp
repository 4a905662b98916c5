#pragma once

// A record ring laid out by hand: no producer's code takes part.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "records/ring_reader.hpp"

namespace trimtab::agent::test {

inline constexpr std::uint32_t kNames = 16;
inline constexpr std::uint32_t kSlots = 64;
inline constexpr std::size_t kBytes =
    sizeof(record::RingHeader) + kNames * sizeof(record::NameEntry) + kSlots * sizeof(record::RecordSlot);

// A ring as a producer lays it out.
class HandMadeRing {
 public:
  explicit HandMadeRing(std::size_t bytes = kBytes, int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
      : descriptor_(memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)), bytes_(bytes) {
    TRIMTAB_ASSERT(ftruncate(descriptor_, static_cast<off_t>(bytes)) == 0, "a ring of this size can be made");
    TRIMTAB_ASSERT(posix_fallocate(descriptor_, 0, static_cast<off_t>(bytes)) == 0, "a ring's pages can be had");
    memory_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0));
    TRIMTAB_ASSERT(memory_ != MAP_FAILED, "a ring can be mapped");
    TRIMTAB_ASSERT(fcntl(descriptor_, F_ADD_SEALS, seals) == 0, "a ring can be sealed");
    if (bytes < kBytes) return;
    new (memory_) record::RingHeader{};
    header().magic = record::kMagic;
    header().version = record::kVersion;
    header().header_bytes = sizeof(record::RingHeader);
    header().name_capacity = kNames;
    header().slot_capacity = kSlots;
    header().pid = 77;
    for (std::uint64_t i = 0; i < kSlots; ++i) slot(i).sequence.store(i);
  }
  ~HandMadeRing() {
    munmap(memory_, bytes_);
    close(descriptor_);
  }
  HandMadeRing(const HandMadeRing&) = delete;
  HandMadeRing& operator=(const HandMadeRing&) = delete;

  record::RingHeader& header() { return *reinterpret_cast<record::RingHeader*>(memory_); }
  record::NameEntry& name(std::uint32_t index) {
    return reinterpret_cast<record::NameEntry*>(memory_ + sizeof(record::RingHeader))[index];
  }
  record::RecordSlot& slot(std::uint64_t ticket) {
    return reinterpret_cast<record::RecordSlot*>(&name(kNames))[ticket % kSlots];
  }
  std::span<char> memory() { return {memory_, bytes_}; }

  void set_name(std::uint32_t index, const std::string& text) {
    name(index).length = static_cast<std::uint16_t>(text.size());
    std::memcpy(name(index).text, text.data(), text.size());
    name(index).state.store(2);
  }
  record::RecordSlot& claim() { return slot(header().head.fetch_add(1)); }
  void publish(std::int64_t payload) {
    record::RecordSlot& claimed = claim();
    claimed.begin_ns = 10;
    claimed.end_ns = 30;
    claimed.payload = payload;
    claimed.kind = record::kRange;
    claimed.sequence.fetch_add(1);
  }
  Result<std::unique_ptr<RingReader>> attach() { return RingReader::attach(dup(descriptor_), clock); }
  std::unique_ptr<RingReader> reader() {
    auto result = attach();
    TRIMTAB_ASSERT(result.ok(), result.error().message.c_str());
    return std::move(result).value();
  }
  [[nodiscard]] int descriptor() const { return dup(descriptor_); }
  ManualClock clock;

 private:
  int descriptor_;
  std::size_t bytes_;
  char* memory_;
};

}  // namespace trimtab::agent::test
