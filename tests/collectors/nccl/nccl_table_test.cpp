// The table of choices: what is a table, what is found in it, and that nothing else is ever believed.

#include "schema/nccl_table.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <vector>

using namespace trimtab::nccl;

namespace {

using Bytes = std::vector<std::uint64_t>;  // aligned

struct File {
  Bytes memory;
  std::size_t bytes = 0;
  unsigned char* data() { return reinterpret_cast<unsigned char*>(memory.data()); }
};

void seal(File& file) {
  const std::uint64_t id = table_id(file.data(), file.bytes);
  std::memcpy(file.data() + offsetof(TableHeader, id), &id, sizeof(id));
}

File file_of(const std::vector<TableEntry>& entries) {
  File file;
  file.bytes = sizeof(TableHeader) + entries.size() * sizeof(TableEntry);
  file.memory.resize((file.bytes + 7) / 8 + 1);
  const TableHeader header{kTableMagic,
                           kTableVersion,
                           sizeof(TableHeader),
                           sizeof(TableEntry),
                           static_cast<std::uint32_t>(entries.size()),
                           3,
                           0};
  std::memcpy(file.data(), &header, sizeof(header));
  if (!entries.empty()) {
    std::memcpy(file.data() + sizeof(header), entries.data(), entries.size() * sizeof(TableEntry));
  }
  seal(file);
  return file;
}

TableEntry entry(Function function, std::uint32_t ranks, std::uint32_t spread, std::uint64_t from, std::uint64_t to) {
  return {from, to, ranks, spread, function, kRing, kSimple, 0, 0};
}

TableFault fault_of(File& file) {
  TableView view;
  return TableView::open(file.memory.data(), file.bytes, view);
}

}  // namespace

TEST_CASE("each size finds the entry of its own group that holds it, or none", "[nccl]") {
  File file = file_of({entry(kBroadcast, 2, 0, 0, 10), entry(kAllReduce, 2, 0, 5, 9), entry(kAllReduce, 2, 0, 10, 20),
                       entry(kAllReduce, 2, 1, 0, ~std::uint64_t{0}), entry(kAllReduce, 8, 0, 7, 7)});
  TableView view;
  REQUIRE(TableView::open(file.memory.data(), file.bytes, view) == TableFault::kNone);
  CHECK(view.size() == 5);
  CHECK(view.epoch() == 3);
  CHECK(view.find(kAllReduce, 2, 0, 4) == nullptr);
  CHECK(view.find(kAllReduce, 2, 0, 5) == &view[1]);
  CHECK(view.find(kAllReduce, 2, 0, 9) == &view[1]);
  CHECK(view.find(kAllReduce, 2, 0, 10) == &view[2]);
  CHECK(view.find(kAllReduce, 2, 0, 20) == &view[2]);
  CHECK(view.find(kAllReduce, 2, 0, 21) == nullptr);
  CHECK(view.find(kAllReduce, 2, 1, ~std::uint64_t{0}) == &view[3]);
  CHECK(view.find(kAllReduce, 8, 0, 7) == &view[4]);
  CHECK(view.find(kAllReduce, 8, 0, 8) == nullptr);
  CHECK(view.find(kAllReduce, 9, 0, 7) == nullptr);
  CHECK(view.find(kBroadcast, 2, 0, 0) == &view[0]);
  CHECK(view.find(kReduce, 2, 0, 0) == nullptr);
  CHECK(TableView().find(kReduce, 2, 0, 0) == nullptr);
}

TEST_CASE("a table of no choices is one", "[nccl]") {
  File file = file_of({});
  CHECK(fault_of(file) == TableFault::kNone);
}

TEST_CASE("what NCCL could not follow is no table", "[nccl]") {
  const auto refused = [](auto change) {
    TableEntry one = entry(kAllReduce, 4, 1, 5, 9);
    change(one);
    File file = file_of({one});
    return fault_of(file) == TableFault::kMistaken;
  };
  CHECK_FALSE(refused([](TableEntry&) {}));
  CHECK(refused([](TableEntry& one) { one.function = kSendRecv; }));
  CHECK(refused([](TableEntry& one) { one.algorithm = 7; }));
  CHECK(refused([](TableEntry& one) { one.protocol = 3; }));
  CHECK(refused([](TableEntry& one) { one.channels = 65; }));
  CHECK_FALSE(refused([](TableEntry& one) { one.channels = 64; }));
  CHECK(refused([](TableEntry& one) { one.algorithm = kCollnetChain, one.channels = 1; }));
  CHECK(refused([](TableEntry& one) { one.max_bytes = 4; }));
  CHECK(refused([](TableEntry& one) { one.ranks = 1; }));
  CHECK(refused([](TableEntry& one) { one.spread = 2; }));
  CHECK(refused([](TableEntry& one) { one.reserved = 1; }));
}

TEST_CASE("entries out of order or over one another are no table", "[nccl]") {
  File swapped = file_of({entry(kAllReduce, 2, 0, 10, 20), entry(kAllReduce, 2, 0, 5, 9)});
  CHECK(fault_of(swapped) == TableFault::kMistaken);
  File overlapping = file_of({entry(kAllReduce, 2, 0, 5, 10), entry(kAllReduce, 2, 0, 10, 20)});
  CHECK(fault_of(overlapping) == TableFault::kMistaken);
}

TEST_CASE("another length, format or content is said by its name", "[nccl]") {
  File file = file_of({entry(kAllReduce, 2, 0, 5, 10)});
  TableView view;
  CHECK(TableView::open(file.memory.data(), 0, view) == TableFault::kSize);
  CHECK(TableView::open(file.memory.data(), file.bytes - 1, view) == TableFault::kSize);
  CHECK(TableView::open(file.memory.data(), file.bytes + 1, view) == TableFault::kSize);
  CHECK(view.empty());
  File other = file;
  other.data()[0] ^= 1;
  CHECK(fault_of(other) == TableFault::kNotOurs);
  other = file;
  other.data()[8] = 2;
  CHECK(fault_of(other) == TableFault::kVersion);
  for (std::size_t at = 24; at < file.bytes; ++at) {  // epoch, id and entries
    other = file;
    other.data()[at] ^= 0x10;
    CHECK(fault_of(other) == TableFault::kDamaged);
  }
}

// With its checksum made right again: what is behind the checksum must hold by itself.
TEST_CASE("random tables are refused, or every answer is a usable entry that holds the size", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::uint64_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<TableEntry> entries;
    for (std::uint64_t i = 0; i < random() % 6; ++i) {
      entries.push_back(
          entry(static_cast<Function>(random() % 5), 2 + random() % 2, 0, 10 * i, 10 * i + random() % 12));
    }
    if (random() % 2 == 0) std::sort(entries.begin(), entries.end(), comes_before);
    File file = file_of(entries);
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      file.data()[random() % file.bytes] = static_cast<unsigned char>(random());
    }
    if (random() % 4 == 0) file.bytes = random() % (file.bytes + 1);
    if (file.bytes >= sizeof(TableHeader)) seal(file);
    TableView view;
    if (TableView::open(file.memory.data(), file.bytes, view) != TableFault::kNone) continue;
    ++accepted;
    for (int question = 0; question < 20; ++question) {
      const auto function = static_cast<std::uint8_t>(random() % 8);
      const auto ranks = static_cast<std::uint32_t>(2 + random() % 2);
      const std::uint64_t bytes = random() % 80;
      const TableEntry* found = view.find(function, ranks, 0, bytes);
      const TableEntry* expected = nullptr;
      for (std::uint32_t i = 0; i < view.size(); ++i) {
        const TableEntry& one = view[i];
        const bool holds = one.function == function && one.ranks == ranks && one.spread == 0 &&
                           one.min_bytes <= bytes && bytes <= one.max_bytes;
        if (holds) expected = &one;
      }
      CHECK(found == expected);
      if (found != nullptr) CHECK(usable(*found));
    }
  }
  CHECK(accepted > 100);
}
