#include "base/ring.hpp"

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

using namespace trimtab;

TEST_CASE("a ring gives items back in the order in which they came") {
  Ring<int> ring(4);
  for (int round = 0; round < 10; ++round) {
    CHECK(ring.push(2 * round));
    CHECK(ring.push(2 * round + 1));
    CHECK(ring.pop() == 2 * round);
    CHECK(ring.pop() == 2 * round + 1);
    CHECK(ring.pop() == std::nullopt);
  }
}

TEST_CASE("a full ring drops the new item, counts it and keeps the old ones") {
  Ring<int> ring(2);
  CHECK(ring.push(1));
  CHECK(ring.push(2));
  CHECK_FALSE(ring.push(3));
  CHECK_FALSE(ring.push(4));
  CHECK(ring.dropped() == 2);
  CHECK(ring.pop() == 1);
  CHECK(ring.push(5));
  CHECK(ring.pop() == 2);
  CHECK(ring.pop() == 5);
  CHECK(ring.dropped() == 2);
}

TEST_CASE("a popped item leaves nothing behind in the ring") {
  Ring<std::shared_ptr<int>> ring(2);
  const auto item = std::make_shared<int>(1);
  CHECK(ring.push(item));
  CHECK(ring.pop().value() == item);
  CHECK(item.use_count() == 1);
}

TEST_CASE("a ring destroys the items that nobody took") {
  const auto item = std::make_shared<int>(1);
  {
    Ring<std::shared_ptr<int>> ring(2);
    CHECK(ring.push(item));
  }
  CHECK(item.use_count() == 1);
}

TEST_CASE("with several producers every item arrives once or is counted as dropped, each producer's in order") {
  constexpr std::uint64_t kProducers = 3;
  constexpr std::uint64_t kItems = 20000;
  Ring<std::uint64_t> ring(64);
  std::vector<std::uint64_t> pushed(kProducers, 0);
  std::atomic<std::uint64_t> running{kProducers};
  std::vector<std::thread> producers;
  for (std::uint64_t producer = 0; producer < kProducers; ++producer) {
    producers.emplace_back([&, producer] {
      for (std::uint64_t i = 1; i <= kItems; ++i) pushed[producer] += ring.push(producer << 32 | i) ? 1 : 0;
      --running;
    });
  }
  std::vector<std::uint64_t> last(kProducers, 0);
  std::vector<std::uint64_t> popped(kProducers, 0);
  bool in_order = true;
  for (bool more = true; more;) {
    more = running.load() > 0;  // read before draining: what comes later is found in the next round
    while (const auto item = ring.pop()) {
      const std::uint64_t producer = *item >> 32;
      const std::uint64_t number = *item & 0xffffffffU;
      in_order = in_order && number > last[producer];
      last[producer] = number;
      ++popped[producer];
    }
  }
  for (std::thread& producer : producers) producer.join();
  CHECK(in_order);
  CHECK(popped == pushed);
  CHECK(popped[0] + popped[1] + popped[2] + ring.dropped() == kProducers * kItems);
}
