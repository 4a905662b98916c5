#include "name_table.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace trimtab;
using inject::NameTable;

namespace {

struct Table {
  explicit Table(std::uint32_t capacity) : entries(new record::NameEntry[capacity]{}), table(entries.get(), capacity) {}
  std::uint32_t add(const std::string& text) { return table.intern(text.data(), text.size()); }
  std::string text(std::uint32_t index) const { return {table.entry(index).text, table.entry(index).length}; }
  std::unique_ptr<record::NameEntry[]> entries;
  NameTable table;
};

}  // namespace

TEST_CASE("the same text has the same index, another text another one") {
  Table table(64);
  const std::uint32_t step = table.add("step");
  CHECK(step != 0);
  CHECK(table.add("step") == step);
  CHECK(table.add("steps") != step);
  CHECK(table.text(step) == "step");
}

TEST_CASE("the empty text has an index of its own") {
  Table table(64);
  const std::uint32_t empty = table.add("");
  CHECK(empty != 0);
  CHECK(table.table.matches(empty, ""));
  CHECK_FALSE(table.table.matches(empty, "a"));
}

TEST_CASE("index 0 is never given out, whatever hashes there") {
  Table table(1024);
  for (int i = 0; i < 700; ++i) CHECK(table.add("name " + std::to_string(i)) != 0);
}

TEST_CASE("a full table refuses new texts and still knows the old ones") {
  Table table(16);
  std::vector<std::uint32_t> indices;
  for (int i = 0; i < 12; ++i) indices.push_back(table.add(std::to_string(i)));
  CHECK(table.add("one too many") == 0);
  for (int i = 0; i < 12; ++i) CHECK(table.add(std::to_string(i)) == indices[static_cast<std::size_t>(i)]);
}

TEST_CASE("a long text is cut and marked, and is not the short text that it begins with") {
  Table table(64);
  const std::string exact(record::kNameBytes, 'x');
  const std::uint32_t whole = table.add(exact);
  const std::uint32_t cut = table.add(exact + "tail");
  CHECK(whole != cut);
  CHECK(table.table.entry(whole).flags == 0);
  CHECK(table.table.entry(cut).flags == record::kNameCut);
  CHECK(table.table.matches(whole, exact.c_str()));
  CHECK_FALSE(table.table.matches(whole, (exact + "tail").c_str()));
  CHECK(table.table.matches(cut, (exact + "tail").c_str()));
  CHECK_FALSE(table.table.matches(cut, exact.c_str()));
}

TEST_CASE("matching compares the text, so that a reused buffer is noticed") {
  Table table(64);
  char buffer[8] = "one";
  const std::uint32_t one = table.add(buffer);
  CHECK(table.table.matches(one, buffer));
  std::snprintf(buffer, sizeof(buffer), "two");
  CHECK_FALSE(table.table.matches(one, buffer));
  std::snprintf(buffer, sizeof(buffer), "on");
  CHECK_FALSE(table.table.matches(one, buffer));
}

TEST_CASE("an entry whose writer died is passed over") {
  Table table(16);
  for (std::uint32_t i = 1; i < 16; i += 2) table.entries[i].state.store(1);
  const std::uint32_t index = table.add("alive");
  CHECK(index != 0);
  CHECK(table.table.valid(index));
  CHECK(table.add("alive") == index);
}

TEST_CASE("threads that add the same texts all get indices of the right text") {
  Table table(1024);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const std::string text = "name " + std::to_string(i % 300);
        const std::uint32_t index = table.add(text);
        if (index == 0 || !table.table.matches(index, text.c_str())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
