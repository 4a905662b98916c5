#include "costs/transfer_join.hpp"

#include <catch2/catch.hpp>
#include <random>

#include "schema/nccl.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

using std::chrono::seconds;

constexpr std::int64_t kSkew = 3'000'000'000;  // the receiver's clock is ahead of the sender's

constexpr std::uint64_t kStart = 10'000'000'000;

// After kStart, by the sender's clock.
struct Times {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

TransferStamp stamp(bool receives, Times times, std::uint64_t unsure_ns = 500) {
  TransferStamp one;
  one.stamp.facts = {7, receives ? nccl::kRecv : nccl::kSend, 0, 0, 4, 4, 0, 1 << 20};
  one.stamp.rank = receives ? 2 : 1;
  one.peer = receives ? 1 : 2;
  const std::uint64_t ahead = kStart + (receives ? kSkew : 0);
  one.stamp.begin_ns = times.begin_ns + ahead;
  one.stamp.end_ns = times.end_ns + ahead;
  one.stamp.clock = StampClock{1, {receives ? kSkew : 0, unsure_ns}, {}};
  return one;
}

struct World {
  TransferJoin join;
  Nanoseconds now = seconds(100);

  void sent(Times times) { join.add(stamp(false, times), now); }
  void received(Times times) { join.add(stamp(true, times), now); }
  std::vector<JoinedTransfer> settled() {
    now += TransferJoin::kSettle;
    return join.take(now);
  }
};

}  // namespace

TEST_CASE("where the receiver waits, a transfer lasts from the send's beginning to the receive's end", "[nccl]") {
  World world;
  world.received({1'000'000, 1'503'000});
  world.sent({1'300'000, 1'500'000});
  CHECK(world.join.take(world.now).empty());  // another send that fits may be on its way
  const auto joined = world.settled();
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].transfer_ns == 203'000);
  CHECK(joined[0].bytes == 1 << 20);
  CHECK(joined[0].channels == 4);
  CHECK_FALSE(joined[0].between_nodes);
  CHECK(world.join.counters().joined == 1);
  (void)world.settled();
  CHECK(world.join.pairs() == 0);
}

TEST_CASE("clocks that are too far apart leave the send's own time", "[nccl]") {
  World world;
  world.join.add(stamp(true, {1'000'000, 1'540'000}, 50'000), world.now);
  world.join.add(stamp(false, {1'300'000, 1'500'000}, 50'000), world.now);
  const auto joined = world.settled();
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].transfer_ns == 200'000);
}

TEST_CASE("a receiver that comes after the send, or may have, tells no transfer", "[nccl]") {
  for (const std::uint64_t begin : {1'350'000, 1'300'000, 1'299'500}) {
    World world;
    world.received({begin, 1'503'000});
    world.sent({1'300'000, 1'500'000});
    CHECK(world.settled().empty());
    CHECK(world.join.counters().alone == 1);
  }
}

TEST_CASE("a send that fits no receive alone is not taken", "[nccl]") {
  const auto joined_of = [](auto change) {
    World world;
    TransferStamp send = stamp(false, {1'300'000, 1'500'000});
    change(world, send);
    world.received({1'000'000, 1'503'000});
    world.join.add(send, world.now);
    return world.settled().size();
  };
  CHECK(joined_of([](World&, TransferStamp&) {}) == 1);
  CHECK(joined_of([](World&, TransferStamp& send) { send.stamp.facts.bytes += 1; }) == 0);
  CHECK(joined_of([](World&, TransferStamp& send) { send.stamp.facts.communicator = 8; }) == 0);
  CHECK(joined_of([](World&, TransferStamp& send) { send.peer = 3; }) == 0);
  CHECK(joined_of([](World&, TransferStamp& send) { send.stamp.end_ns -= 100'000; }) == 0);  // the ends lie apart
  CHECK(joined_of([](World& world, TransferStamp&) { world.sent({1'310'000, 1'499'000}); }) == 0);  // which of the two?
  CHECK(joined_of([](World&, TransferStamp& send) { send.stamp.clock->node = 2; }) == 0);  // nobody compared the nodes
}

TEST_CASE("across nodes the hosts' clocks count, too", "[nccl]") {
  World world;
  TransferStamp send = stamp(false, {1'300'000, 1'500'000});
  TransferStamp receive = stamp(true, {1'000'000, 1'503'000});
  send.stamp.clock->host = ClockDifference::Offset{1'000'000, 2'000};
  receive.stamp.clock->host = ClockDifference::Offset{-4'000'000, 2'000};
  receive.stamp.clock->node = 9;
  // The receiver's host is 5 ms behind the sender's.
  receive.stamp.begin_ns -= 5'000'000;
  receive.stamp.end_ns -= 5'000'000;
  world.join.add(receive, world.now);
  world.join.add(send, world.now);
  const auto joined = world.settled();
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].between_nodes);
  CHECK(joined[0].transfer_ns == 203'000);
}

TEST_CASE("transfers in a row find each other, whichever stamps come first", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  World world;
  std::vector<TransferStamp> stamps;
  std::uint64_t at = 5'000'000;
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t waits = 20'000 + random() % 500'000;
    const std::uint64_t takes = 50'000 + random() % 50'000;
    stamps.push_back(stamp(true, {at, at + waits + takes + 1'000}));
    stamps.push_back(stamp(false, {at + waits, at + waits + takes}));
    at += waits + takes + 30'000 + random() % 100'000;
  }
  std::ranges::shuffle(stamps, random);
  for (const TransferStamp& one : stamps) world.join.add(one, world.now);
  CHECK(world.settled().size() == 200);
}

TEST_CASE("what peers say is bounded and does no harm", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  World world;
  const auto any = [&] { return random() >> (random() % 64); };
  for (int i = 0; i < 200'000; ++i) {
    TransferStamp one = stamp(random() % 2 == 0, {1, 2});
    one.stamp.facts.communicator = random() % 5000;
    one.stamp.facts.ranks = static_cast<std::uint32_t>(any());
    one.stamp.rank = static_cast<std::uint32_t>(any());
    one.peer = static_cast<std::uint32_t>(any());
    if (random() % 2 == 0) one.stamp.facts.ranks = 4, one.stamp.rank = 1, one.peer = 2;
    one.stamp.facts.bytes = static_cast<std::int64_t>(any());
    one.stamp.begin_ns = any();
    one.stamp.end_ns = any();
    const auto offset = [&] { return ClockDifference::Offset{static_cast<std::int64_t>(any()), any()}; };
    one.stamp.clock = StampClock{static_cast<std::uint32_t>(random() % 2), offset(), {}};
    if (random() % 2 == 0) one.stamp.clock->host = offset();
    world.join.add(one, world.now);
    world.now += std::chrono::microseconds(random() % 200);
    if (random() % 100 == 0) (void)world.join.take(world.now);
    REQUIRE(world.join.pairs() <= TransferJoin::kMostPairs);
    REQUIRE(world.join.stamps() <= TransferJoin::kMostStamps);
  }
  CHECK(world.join.counters().unfit > 0);
  CHECK(world.join.counters().dropped > 0);
  for (int i = 0; i < 3; ++i) (void)world.settled();
  CHECK(world.join.pairs() == 0);
  CHECK(world.join.stamps() == 0);
}

TEST_CASE("stamps that nobody takes stay within one bound, however many pairs they name", "[nccl]") {
  World world;
  for (std::uint64_t i = 0; i < 2 * TransferJoin::kMostStamps; ++i) {
    TransferStamp one = stamp(i % 2 == 0, {1'000, 2'000});
    one.stamp.facts.communicator = i % 1000;
    world.join.add(one, world.now);
  }
  CHECK(world.join.stamps() == TransferJoin::kMostStamps);
  CHECK(world.join.counters().dropped == TransferJoin::kMostStamps);
}
