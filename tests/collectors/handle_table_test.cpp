#include "name_table.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

using namespace trimtab;
using namespace trimtab::inject;

namespace {

struct Ring {
  explicit Ring(std::uint32_t capacity) : entries(new record::NameEntry[capacity]{}), table(entries.get(), capacity) {}
  std::string text(std::uint32_t index) const { return {table.entry(index).text, table.entry(index).length}; }
  std::unique_ptr<record::NameEntry[]> entries;
  NameTable table;
};

struct Handles {
  std::unique_ptr<HandleMemory<64>> memory{new HandleMemory<64>{}};
  HandleTable table{*memory};
};

}  // namespace

TEST_CASE("a handle made before there is a ring is good in the ring, and in the next one") {
  Handles handles;
  const std::uint32_t handle = handles.table.create("NCCL", 4);
  REQUIRE(handle != 0);
  Ring first(64);
  const std::uint32_t index = handles.table.ring_index(handle, {&first.table, 1});
  CHECK(first.text(index) == "NCCL");
  CHECK(handles.table.ring_index(handle, {&first.table, 1}) == index);

  Ring second(64);
  second.table.intern("other", 5);
  CHECK(second.text(handles.table.ring_index(handle, {&second.table, 2})) == "NCCL");
}

TEST_CASE("a domain that is created twice has one handle") {
  Handles handles;
  CHECK(handles.table.create("d", 1) == handles.table.create("d", 1));
}

TEST_CASE("a handle that was never given stands for nothing") {
  Handles handles;
  Ring ring(64);
  for (const std::uint32_t nonsense : {0U, 5U, 63U, 64U, 0xffffffffU}) {
    CHECK(handles.table.ring_index(nonsense, {&ring.table, 1}) == 0);
  }
}

TEST_CASE("a handle without room in the ring's table stands for nothing there") {
  Handles handles;
  Ring ring(8);
  for (int i = 0; i < 6; ++i) ring.table.intern(std::to_string(i).c_str(), 1);
  const std::uint32_t handle = handles.table.create("late", 4);
  CHECK(handles.table.ring_index(handle, {&ring.table, 1}) == 0);
}
