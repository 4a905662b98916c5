// Nodes whose clocks are made up, over a network whose messages take any time.

#include "agents/membership.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "base/random.hpp"
#include "wire/agent.pb.h"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::uint64_t kStart = 1'700'000'000'000'000'000;
constexpr std::uint64_t kBeat = 2'000'000'000;

// One node's agent, as it speaks.
struct ClockedNode {
  NodeClocks& clocks;
  std::string name;
  double ahead_ns = 0;
  double drift = 0;
  std::uint64_t answered = 0;
  std::uint64_t heard = 0;

  [[nodiscard]] std::uint64_t clock(std::uint64_t ours) const { return ours + static_cast<std::uint64_t>(truth(ours)); }
  [[nodiscard]] std::int64_t truth(std::uint64_t ours) const {
    return std::llround(ahead_ns + drift * static_cast<double>(ours - kStart));
  }
  // A heartbeat that leaves when our clock is `ours`, and its answer.
  void beat(std::uint64_t ours, std::uint64_t there_ns, std::uint64_t back_ns) {
    wire::Heartbeat heartbeat;
    heartbeat.set_wall_ns(clock(ours));
    heartbeat.set_answered_ns(answered);
    heartbeat.set_heard_ns(heard);
    clocks.heard(name, heartbeat, ours + there_ns);
    clocks.answered(name, ours + there_ns);
    answered = ours + there_ns;
    heard = clock(ours + there_ns + back_ns);
  }
};

}  // namespace

TEST_CASE("the truth lies within what is said, whatever the messages take", "[nccl]") {
  const std::uint64_t seed = std::random_device{}();
  INFO("seed " << seed);
  Random random(seed);
  for (const double drift : {0.0, 20e-6, -40e-6}) {
    for (const double ahead : {0.0, 4e9, -3.6e12}) {
      NodeClocks clocks;
      ClockedNode node{clocks, "n0", ahead, drift};
      std::uint64_t now = kStart;
      for (int i = 0; i < 100; ++i, now += kBeat) {
        node.beat(now, 50'000 + random.below(400'000), 30'000 + random.below(2'000'000));
        if (i == 0) CHECK_FALSE(clocks.ahead("n0", node.clock(now)));
        if (i < 2) continue;
        for (const std::uint64_t before : {std::uint64_t{0}, kBeat / 2, 2 * kBeat}) {
          const auto said = clocks.ahead("n0", node.clock(now - before));
          REQUIRE(said);
          INFO("beat " << i << " ahead " << ahead << " drift " << drift);
          CHECK(std::abs(said->ns - node.truth(now - before)) <= static_cast<std::int64_t>(said->uncertainty_ns));
          if (i >= 40) CHECK(said->uncertainty_ns < 2'000'000);  // a drift shows after a while
        }
      }
    }
  }
}

TEST_CASE("a way that takes longer than the other does not deceive, it leaves doubt", "[nccl]") {
  NodeClocks clocks;
  ClockedNode node{clocks, "n0"};
  for (std::uint64_t i = 0; i < 50; ++i) node.beat(kStart + i * kBeat, 10'000, 3'000'000);
  const auto said = clocks.ahead("n0", kStart + 49 * kBeat);
  REQUIRE(said);
  CHECK(said->ns > 1'000'000);  // midway
  CHECK(said->uncertainty_ns >= static_cast<std::uint64_t>(said->ns));
}

TEST_CASE("a clock that is set is known again after two heartbeats", "[nccl]") {
  NodeClocks clocks;
  ClockedNode node{clocks, "n0", 5e6};
  std::uint64_t now = kStart;
  for (int i = 0; i < 40; ++i, now += kBeat) node.beat(now, 20'000, 20'000);
  for (const double step : {3.6e12, -7.2e12}) {
    node.ahead_ns += step;
    for (int i = 0; i < 3; ++i, now += kBeat) node.beat(now, 20'000, 20'000);
    const auto said = clocks.ahead("n0", node.clock(now - kBeat));
    REQUIRE(said);
    CHECK(std::abs(said->ns - node.truth(now - kBeat)) <= static_cast<std::int64_t>(said->uncertainty_ns));
  }
}

TEST_CASE("an agent that says nothing of its clock, or of an answer that never was, is not believed", "[nccl]") {
  NodeClocks clocks;
  wire::Heartbeat silent;
  silent.set_sent_ns(1);
  for (int i = 0; i < 3; ++i) {
    clocks.heard("old", silent, kStart);
    clocks.answered("old", kStart);
  }
  CHECK_FALSE(clocks.ahead("old", kStart));
  wire::Heartbeat invented;
  invented.set_wall_ns(kStart);
  invented.set_answered_ns(kStart - 12345);
  invented.set_heard_ns(kStart - 12345);
  for (int i = 0; i < 3; ++i) {
    clocks.heard("liar", invented, kStart + 1'000'000);
    clocks.answered("liar", kStart + 1'000'000);
  }
  CHECK_FALSE(clocks.ahead("liar", kStart));
  CHECK(clocks.latest().empty());
}

TEST_CASE("what is far from the last heartbeat is less sure", "[nccl]") {
  NodeClocks clocks;
  ClockedNode node{clocks, "n0"};
  for (std::uint64_t i = 0; i < 5; ++i) node.beat(kStart + i * kBeat, 20'000, 20'000);
  const std::uint64_t last = kStart + 4 * kBeat;
  const auto near = clocks.ahead("n0", last);
  const auto far = clocks.ahead("n0", last + 1'000'000'000'000);
  CHECK(near->uncertainty_ns < 40'000);
  CHECK(far->uncertainty_ns > near->uncertainty_ns + 14'000'000);
  clocks.forget("n0");
  CHECK_FALSE(clocks.ahead("n0", last));
}
