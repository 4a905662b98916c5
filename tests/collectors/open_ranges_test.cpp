#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

#include "thread_state.hpp"

using namespace trimtab::inject;

namespace {

void open_range(ThreadState& state, std::uint32_t domain, std::uint32_t name) {
  const std::uint32_t depth = state.depth.load();
  state.open[depth].domain.store(domain);
  state.open[depth].name.store(name);
  state.depth.store(depth + 1);
}

}  // namespace

TEST_CASE("a pop closes the innermost range of its own domain") {
  const auto state = std::make_unique<ThreadState>();
  open_range(*state, 1, 10);
  open_range(*state, 2, 20);
  open_range(*state, 1, 11);
  ClosedRange range;
  CHECK(remove_innermost(*state, 2, range) == 1);
  CHECK(range.name == 20);
  CHECK(remove_innermost(*state, 1, range) == 1);
  CHECK(range.name == 11);
  CHECK(remove_innermost(*state, 1, range) == 0);
  CHECK(range.name == 10);
  CHECK(remove_innermost(*state, 1, range) == -1);
}

TEST_CASE("pops of ranges that had no room take nothing from those that had") {
  ThreadState state;
  CHECK_FALSE(leave_overflow(state, 1));
  CHECK(enter_overflow(state, 1));
  CHECK(enter_overflow(state, 2));
  CHECK(enter_overflow(state, 1));
  CHECK(leave_overflow(state, 1));
  CHECK(leave_overflow(state, 1));
  CHECK_FALSE(leave_overflow(state, 1));
  CHECK(leave_overflow(state, 2));
  CHECK(state.overflowing == 0);
}

TEST_CASE("overflow of more domains than can be told apart is refused") {
  ThreadState state;
  for (std::uint32_t domain = 0; domain < kOverflowDomains; ++domain) CHECK(enter_overflow(state, domain));
  CHECK_FALSE(enter_overflow(state, 100));
}

TEST_CASE("a started range ends once, whoever ends it") {
  const auto table = std::make_unique<OpenTable>();
  const std::uint64_t id = table->start({.begin_ns = 5, .payload = 6, .name = 7}, 8);
  REQUIRE(id != 0);
  ClosedRange range;
  std::uint32_t thread = 0;
  CHECK(table->end(id, range, thread));
  CHECK(range.begin_ns == 5);
  CHECK(range.payload == 6);
  CHECK(range.name == 7);
  CHECK(thread == 8);
  CHECK_FALSE(table->end(id, range, thread));
  for (const std::uint64_t nonsense : {std::uint64_t{0}, ~std::uint64_t{0}, id + 1, std::uint64_t{1} << 50}) {
    CHECK_FALSE(table->end(nonsense, range, thread));
  }
}

TEST_CASE("a full table of started ranges says so, and has room again later") {
  const auto table = std::make_unique<OpenTable>();
  std::vector<std::uint64_t> ids;
  for (std::uint32_t i = 0; i < kMaxStarted; ++i) ids.push_back(table->start({}, 0));
  for (const std::uint64_t id : ids) CHECK(id != 0);
  CHECK(table->start({}, 0) == 0);
  ClosedRange range;
  std::uint32_t thread = 0;
  int drained = 0;
  table->drain([&](const ClosedRange&, std::uint32_t) { ++drained; });
  CHECK(drained == static_cast<int>(kMaxStarted));
  CHECK_FALSE(table->end(ids[0], range, thread));
  CHECK(table->start({}, 0) != 0);
}

TEST_CASE("ranges started and ended by many threads end exactly once") {
  const auto table = std::make_unique<OpenTable>();
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) {
        const std::uint64_t id = table->start({}, 0);
        if (id == 0) continue;
        ++started;
        ClosedRange range;
        std::uint32_t thread = 0;
        if (table->end(id, range, thread)) ++ended;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(started > 0);
  CHECK(started == ended);
}
