// Attaching to programs whose copy of NVTX is older, newer or broken. The tables are made by hand.

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>

#include "nvtx_callbacks.hpp"

using namespace trimtab::inject::nvtx;

namespace {

// A program's function pointers, and the table of pointers to them.
struct Program {
  std::array<Function, 32> functions{};
  std::array<Function*, 32> table{};
  unsigned size = 16;
  bool knows_module = true;
  std::size_t callbacks_bytes = sizeof(CallbacksTable);
  bool has_version = true;
  std::uint32_t told_version = 0;
};

Program* program = nullptr;

int get_table(int module, FunctionTable* table, unsigned* size) {
  if (module != kModuleCore || !program->knows_module) return 0;
  *table = program->table.data();
  *size = program->size;
  return 1;
}

void set_version(std::uint32_t version) {
  program->told_version = version;
}

const void* export_table(std::uint32_t id) {
  static CallbacksTable callbacks;
  static VersionTable version;
  callbacks = {program->callbacks_bytes, get_table};
  version = {sizeof(VersionTable), 3, 0, set_version};
  if (id == kTableCallbacks) return &callbacks;
  return id == kTableVersion && program->has_version ? &version : nullptr;
}

bool attach_to(Program& target) {
  // Beyond `size` too: what lies behind a table is not ours to touch.
  for (std::size_t i = 1; i < target.table.size(); ++i) target.table[i] = &target.functions[i];
  program = &target;
  return attach(export_table);
}

}  // namespace

TEST_CASE("a program's functions become ours, and it is told our version") {
  Program target;
  CHECK(attach_to(target));
  for (const unsigned index : {kMarkEx, kMarkA, kMarkW, kRangeStartEx, kRangeStartA, kRangeStartW, kRangeEnd,
                               kRangePushEx, kRangePushA, kRangePushW, kRangePop, kNameOsThreadA, kNameOsThreadW}) {
    CHECK(target.functions[index] != nullptr);
  }
  CHECK(target.functions[12] == nullptr);  // categories are not collected
  CHECK(target.told_version == 3);
}

TEST_CASE("of a shorter table only what it has is filled") {
  Program target;
  target.size = 9;
  CHECK(attach_to(target));
  CHECK(target.functions[kRangePushEx] != nullptr);
  CHECK(target.functions[kRangePushA] == nullptr);
}

TEST_CASE("a place without a function is left alone") {
  Program target;
  program = &target;
  CHECK(attach(export_table));  // every pointer of the table is null
}

TEST_CASE("a program without what we need is left alone") {
  Program no_modules;
  no_modules.knows_module = false;
  CHECK_FALSE(attach_to(no_modules));
  Program older;
  older.callbacks_bytes = 8;
  CHECK_FALSE(attach_to(older));
  Program no_version;
  no_version.has_version = false;
  CHECK(attach_to(no_version));
  CHECK_FALSE(attach(nullptr));
  CHECK_FALSE(attach([](std::uint32_t) -> const void* { return nullptr; }));
}
