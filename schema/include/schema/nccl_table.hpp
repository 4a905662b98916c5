#pragma once

// The file that tells NCCL which algorithm, protocol and number of channels to use: written by the coordinator, carried
// to every node of a launch, read by the tuner plugin inside the training processes. Little-endian; a TableHeader, then
// `entries` TableEntry in order. Header only.
//
// Every rank of a launch must decide alike, or the job hangs. So a file never changes once it is named: its `id` is the
// hash of all of it, the launch carries that id beside the path, and who finds another id takes no file at all.

#include <cstddef>
#include <cstdint>

#include "schema/nccl.hpp"

namespace trimtab::nccl {

inline constexpr std::uint64_t kTableMagic = 0x4c42544e'4d495254U;  // "TRIMNTBL", little-endian
inline constexpr std::uint32_t kTableVersion = 1;
inline constexpr std::uint32_t kMaxTableEntries = 16384;

struct TableHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;  // sizeof(TableHeader)
  std::uint32_t entry_bytes;   // sizeof(TableEntry)
  std::uint32_t entries;
  std::uint64_t epoch;  // the launch that it was made for
  std::uint64_t id;     // table_id() of the file with this field 0
};
static_assert(sizeof(TableHeader) == 40);

// One choice. Entries are sorted by (function, ranks, spread, min_bytes), and those of one group do not overlap.
struct TableEntry {
  std::uint64_t min_bytes;  // as NCCL counts a collective's size: the larger of what a rank sends and receives
  std::uint64_t max_bytes;  // inclusive
  std::uint32_t ranks;
  std::uint32_t spread;    // 0 = all ranks on one node, 1 = on several (costs know no more: "placement")
  std::uint8_t function;   // Function, tunable()
  std::uint8_t algorithm;  // Algorithm
  std::uint8_t protocol;   // Protocol
  std::uint8_t channels;   // 1 to kMaxChannels; 0 = as many as NCCL wants, and always 0 for the collnet algorithms:
                           // with those NCCL 2.30 does not hold a tuner's number against what the communicator has
  std::uint32_t reserved;  // 0
};
static_assert(sizeof(TableEntry) == 32);

// FNV-1a, then spread: against damage and mix-ups, not against an adversary.
constexpr std::uint64_t table_hash(std::uint64_t state, const unsigned char* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) state = (state ^ bytes[i]) * 0x100000001b3ULL;
  return state;
}
inline std::uint64_t table_id(const void* file, std::size_t bytes) {
  const auto* data = static_cast<const unsigned char*>(file);
  constexpr unsigned char kZeros[sizeof(TableHeader::id)] = {};
  constexpr std::size_t kAt = offsetof(TableHeader, id);
  std::uint64_t state = table_hash(0xcbf29ce484222325ULL, data, kAt);
  state = table_hash(state, kZeros, sizeof(kZeros));
  return spread(table_hash(state, data + sizeof(TableHeader), bytes - sizeof(TableHeader)));
}

enum class TableFault : std::uint8_t {
  kNone,
  kSize,      // shorter or longer than its header says, or too many entries
  kNotOurs,   // another magic
  kVersion,   // another version or layout
  kDamaged,   // its id is not its hash
  kMistaken,  // an entry that NCCL could not follow, or that is out of order
};
constexpr const char* fault_text(TableFault fault) {
  constexpr const char* kTexts[] = {"nothing is wrong",
                                    "its size is not what its header says",
                                    "it is no such table",
                                    "it was written by another release",
                                    "its contents do not match its checksum",
                                    "an entry is out of order or out of range"};
  return kTexts[static_cast<std::size_t>(fault)];
}

constexpr bool comes_before(const TableEntry& a, const TableEntry& b) {
  if (a.function != b.function) return a.function < b.function;
  if (a.ranks != b.ranks) return a.ranks < b.ranks;
  if (a.spread != b.spread) return a.spread < b.spread;
  return a.max_bytes < b.min_bytes;
}
constexpr bool channels_fit(const TableEntry& entry) {
  const bool collnet = entry.algorithm == kCollnetDirect || entry.algorithm == kCollnetChain;
  return entry.channels <= (collnet ? 0 : kMaxChannels);
}
constexpr bool usable(const TableEntry& entry) {
  return tunable(entry.function) && entry.algorithm < count_of(kAlgorithms) && entry.protocol < count_of(kProtocols) &&
         channels_fit(entry) && entry.min_bytes <= entry.max_bytes && entry.ranks >= 2 && entry.spread <= 1 &&
         entry.reserved == 0;
}

// Reads memory that holds such a file. A plain value; the memory must outlive it.
class TableView {
 public:
  constexpr TableView() = default;

  // Checks all of `bytes` once; only a faultless table may be asked. REQUIRES: `file` aligned to 8.
  static TableFault open(const void* file, std::size_t bytes, TableView& view) {
    if (bytes < sizeof(TableHeader)) return TableFault::kSize;
    const auto* header = static_cast<const TableHeader*>(file);
    if (header->magic != kTableMagic) return TableFault::kNotOurs;
    if (header->version != kTableVersion || header->header_bytes != sizeof(TableHeader) ||
        header->entry_bytes != sizeof(TableEntry)) {
      return TableFault::kVersion;
    }
    const bool fits = header->entries <= kMaxTableEntries &&
                      bytes == sizeof(TableHeader) + std::size_t{header->entries} * sizeof(TableEntry);
    if (!fits) return TableFault::kSize;
    if (header->id != table_id(file, bytes)) return TableFault::kDamaged;
    TableView candidate;
    candidate.header_ = header;
    candidate.entries_ = reinterpret_cast<const TableEntry*>(header + 1);
    if (!candidate.in_order()) return TableFault::kMistaken;
    view = candidate;
    return TableFault::kNone;
  }

  [[nodiscard]] constexpr bool empty() const { return header_ == nullptr || header_->entries == 0; }
  [[nodiscard]] constexpr std::uint32_t size() const { return header_ == nullptr ? 0 : header_->entries; }
  // REQUIRES: an opened view; index < size().
  [[nodiscard]] constexpr std::uint64_t id() const { return header_->id; }
  [[nodiscard]] constexpr std::uint64_t epoch() const { return header_->epoch; }
  [[nodiscard]] constexpr const TableEntry& operator[](std::uint32_t index) const { return entries_[index]; }

  // The entry for a collective of `bytes`; nullptr when there is none.
  [[nodiscard]] constexpr const TableEntry* find(std::uint8_t function, std::uint32_t ranks, std::uint32_t spread,
                                                 std::uint64_t bytes) const {
    const TableEntry wanted{bytes, bytes, ranks, spread, function, 0, 0, 0, 0};
    std::uint32_t first = 0;
    std::uint32_t count = size();
    while (count > 0) {
      const std::uint32_t half = count / 2;
      if (comes_before(entries_[first + half], wanted)) {
        first += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return first < size() && !comes_before(wanted, entries_[first]) ? &entries_[first] : nullptr;
  }

 private:
  [[nodiscard]] constexpr bool in_order() const {
    for (std::uint32_t i = 0; i < size(); ++i) {
      if (!usable(entries_[i]) || (i > 0 && !comes_before(entries_[i - 1], entries_[i]))) return false;
    }
    return true;
  }

  const TableHeader* header_ = nullptr;
  const TableEntry* entries_ = nullptr;
};

}  // namespace trimtab::nccl
