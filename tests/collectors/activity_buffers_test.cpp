#include "cupti/activity_buffers.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

using trimtab::inject::cupti::ActivityBuffers;
using Origin = ActivityBuffers::Origin;

namespace {

constexpr std::size_t kBytes = 64 * 1024;

bool zeroed(const std::uint8_t* buffer, std::size_t bytes) {
  return std::all_of(buffer, buffer + bytes, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

TEST_CASE("buffers are lent until there are no more, taken back, zeroed and lent again") {
  ActivityBuffers buffers;
  REQUIRE(buffers.allocate(70, kBytes));
  std::set<std::uint8_t*> lent;
  for (int i = 0; i < 70; ++i) {
    std::uint8_t* buffer = buffers.lend();
    REQUIRE(buffer != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer) % 8 == 0);
    CHECK(zeroed(buffer, kBytes));
    lent.insert(buffer);
  }
  CHECK(lent.size() == 70);
  CHECK(buffers.lend() == nullptr);
  CHECK(buffers.lent() == 70);
  std::uint8_t* one = *lent.rbegin();
  std::memset(one, 7, 100);
  CHECK(buffers.take_back(one) == Origin::kPool);
  CHECK(buffers.lend() == nullptr);  // it is being read
  buffers.recycle(one, 100);
  CHECK(buffers.lend() == one);
  CHECK(zeroed(one, kBytes));
}

TEST_CASE("buffers that are completed twice, or are not ours, are told apart") {
  ActivityBuffers buffers;
  REQUIRE(buffers.allocate(4, kBytes));
  std::uint8_t* one = buffers.lend();
  CHECK(buffers.take_back(one) == Origin::kPool);
  CHECK(buffers.take_back(one) == Origin::kStale);
  CHECK(buffers.take_back(one + 8) == Origin::kStale);
  std::uint8_t stranger[64];
  CHECK(buffers.take_back(stranger) == Origin::kForeign);
  CHECK(buffers.take_back(nullptr) == Origin::kForeign);
}

TEST_CASE("buffers that were lent before our callbacks were registered anew are told apart") {
  ActivityBuffers buffers;
  REQUIRE(buffers.allocate(4, kBytes));
  const std::uint8_t* before = buffers.lend();
  buffers.begin_era();
  const std::uint8_t* after = buffers.lend();
  std::vector<const std::uint8_t*> present;
  std::vector<const std::uint8_t*> past;
  buffers.for_each_lent(ActivityBuffers::Era::kPresent, [&](const std::uint8_t* buffer) { present.push_back(buffer); });
  buffers.for_each_lent(ActivityBuffers::Era::kPast, [&](const std::uint8_t* buffer) { past.push_back(buffer); });
  CHECK(present == std::vector<const std::uint8_t*>{after});
  CHECK(past == std::vector<const std::uint8_t*>{before});
}

TEST_CASE("scratch buffers never run out; all but the last are lent to one at a time") {
  ActivityBuffers buffers;
  REQUIRE(buffers.allocate(4, kBytes));
  std::set<std::uint8_t*> lent;
  for (std::uint32_t i = 0; i < ActivityBuffers::kScratchBuffers; ++i) lent.insert(buffers.lend_scratch());
  CHECK(lent.size() == ActivityBuffers::kScratchBuffers);
  std::uint8_t* last = buffers.lend_scratch();
  CHECK(last == buffers.lend_scratch());
  std::uint8_t* first = *lent.begin();
  std::memset(first, 7, 10);
  CHECK(buffers.take_back(first) == Origin::kScratch);
  buffers.recycle(first, 10);
  CHECK(buffers.lend_scratch() == first);
  CHECK(zeroed(first, ActivityBuffers::kScratchBytes));
}

TEST_CASE("many threads never hold the same buffer") {
  ActivityBuffers buffers;
  REQUIRE(buffers.allocate(8, kBytes));
  std::atomic<int> clashes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        std::uint8_t* buffer = buffers.lend();
        if (buffer == nullptr) continue;
        if (buffer[0] != 0) ++clashes;
        buffer[0] = static_cast<std::uint8_t>(t + 1);
        if (buffers.take_back(buffer) != Origin::kPool || buffer[0] != t + 1) ++clashes;
        buffers.recycle(buffer, 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(clashes == 0);
  CHECK(buffers.lent() == 0);
}
