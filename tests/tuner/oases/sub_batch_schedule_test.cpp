// The price of an overlapped schedule beside the two streams played through event by event.

#include "solvers/sub_batch_schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "base/random.hpp"

namespace trimtab::tuner {
namespace {

double length(Random& random, bool whole) {
  if (random.below(8) == 0) return 0;
  return whole ? static_cast<double>(random.between(1, 40)) : random.uniform() * 40;
}

std::vector<Block> random_blocks(Random& random, bool whole) {
  std::vector<Block> blocks(random.between(1, 12));
  const bool recomputes = random.below(4) != 0;
  for (Block& block : blocks) {
    block.forward = length(random, whole);
    block.backward = length(random, whole);
    block.recompute = recomputes && random.below(6) != 0 ? length(random, whole) : 0;
    block.forward_communication = length(random, whole);
    block.backward_communication = length(random, whole);
    if (random.below(4) == 0) block.gather_forward = length(random, whole);
    if (random.below(4) == 0) block.gather_backward = length(random, whole);
    block.begins_unit = random.below(2) == 0;
  }
  return blocks;
}

double played(std::span<const Round> rounds, const OverlapSlowdown& slowdown, std::int32_t sub_batches = 2) {
  const StreamActions built = stream_actions(rounds, sub_batches);
  std::vector<StreamSpan> spans(built.actions.size());
  return run_two_streams(built.actions, slowdown, spans);
}

std::vector<Round> all_rounds(std::span<const Block> blocks, const SubBatchSchedule& schedule) {
  std::vector<Round> rounds, backward;
  forward_rounds(blocks, rounds);
  backward_rounds(blocks, schedule, backward);
  backward.front().blocked = true;
  rounds.insert(rounds.end(), backward.begin(), backward.end());
  return rounds;
}

OverlapSlowdown slowdown_of(double computation, double communication) {
  return {computation, communication, true};
}

}  // namespace

TEST_CASE("two streams: each is slowed while the other runs", "[oases][streams]") {
  const std::vector<StreamAction> actions{{false, 6, -1}, {true, 4, -1}, {false, 1, 1}};
  std::vector<StreamSpan> spans(actions.size());
  // Communication takes 4 * 1.5 = 6; meanwhile 6 / 2 = 3 of the computation are done.
  CHECK(run_two_streams(actions, slowdown_of(2, 1.5), spans) == 10);
  CHECK(spans[1].end == 6);
  CHECK(spans[0].end == 9);
  CHECK(spans[2].begin == 9);
  CHECK(overlapped(6, 4, slowdown_of(2, 1.5)) == 9);
  CHECK(overlapped(6, 4, {}) == 6);
}

TEST_CASE("two streams: an action waits for what it is after", "[oases][streams]") {
  const std::vector<StreamAction> actions{{false, 2, -1}, {true, 5, 0}, {false, 1, 1}, {true, 3, -1}};
  std::vector<StreamSpan> spans(actions.size());
  CHECK(run_two_streams(actions, {}, spans) == 10);
  CHECK(spans[1].begin == 2);
  CHECK(spans[2].begin == 7);
  CHECK(spans[3].begin == 7);
}

TEST_CASE("the price of a sub-batched pass is what its streams take", "[oases][streams]") {
  constexpr std::uint64_t kSeed = 20230927;
  for (std::uint64_t seed = kSeed; seed < kSeed + 20000; ++seed) {
    Random random(seed);
    const bool plain = seed % 2 == 0;
    const std::vector<Block> blocks = random_blocks(random, plain);
    const OverlapSlowdown slowdown =
        plain ? OverlapSlowdown{} : slowdown_of(1 + random.uniform(), 1 + 2 * random.uniform());
    const SubBatchSchedule schedule{random.below(2) == 0, random.below(2) == 0};
    const std::vector<Round> rounds = all_rounds(blocks, schedule);
    CAPTURE(seed, blocks.size(), schedule.cross_pass, schedule.recompute_after_communication);
    const double priced = rounds_time(rounds, slowdown);
    const double simulated = played(rounds, slowdown);
    if (plain) {
      REQUIRE(priced == simulated);  // whole numbers
    } else {
      REQUIRE(priced == Approx(simulated).epsilon(1e-12));
    }
  }
}

// Recompute after communications drops communication, but the rounds of the two streams then pair up in another way,
// which now and then loses more than it saves.
TEST_CASE("crossing passes never loses, dropping communication hardly ever", "[oases][streams]") {
  constexpr std::uint64_t kSeed = 77;
  std::size_t crossing_helps = 0;
  std::size_t dropping_helps = 0;
  std::size_t dropping_hurts = 0;
  for (std::uint64_t seed = kSeed; seed < kSeed + 3000; ++seed) {
    Random random(seed);
    std::vector<Block> blocks = random_blocks(random, true);
    for (Block& block : blocks) block.gather_forward = block.gather_backward = 0;
    CAPTURE(seed);
    const double one = played(all_rounds(blocks, {false, false}), {}, 1);
    const double each = rounds_time(all_rounds(blocks, {false, false}), {});
    const double crossing = rounds_time(all_rounds(blocks, {true, false}), {});
    const double both = rounds_time(all_rounds(blocks, {true, true}), {});
    REQUIRE(each <= 2 * one);  // a sub-batch's work twice, nothing overlapped
    REQUIRE(crossing <= each);
    crossing_helps += crossing < each ? 1 : 0;
    dropping_helps += both < crossing ? 1 : 0;
    dropping_hurts += both > crossing ? 1 : 0;
  }
  CHECK(crossing_helps > 300);
  CHECK(dropping_helps > 300);
  CHECK(dropping_helps > 20 * dropping_hurts);
}

TEST_CASE("equations 3 to 5 are the rounds of a chain that recomputes everything", "[oases][streams]") {
  constexpr std::uint64_t kSeed = 5;
  for (std::uint64_t seed = kSeed; seed < kSeed + 500; ++seed) {
    Random random(seed);
    std::vector<Block> blocks = random_blocks(random, true);
    for (Block& block : blocks) {
      block.gather_forward = block.gather_backward = 0;
      block.recompute = block.forward;
      block.backward_communication = block.forward_communication;
    }
    const auto n = blocks.size();
    double expected = blocks[0].forward + 2 * blocks[n - 1].forward_communication;
    for (std::size_t i = 0; i < n; ++i) {
      const double c = blocks[i].forward_communication;
      const double w = blocks[i].forward + blocks[i].backward;
      expected += std::max(blocks[i].forward, c) + std::max(w, c);
      if (i > 0) expected += std::max(blocks[i].forward, blocks[i - 1].forward_communication);
      if (i + 1 < n) expected += std::max(w, blocks[i + 1].forward_communication);
      if (i + 1 == n) expected += w;
    }
    // Of the last communications, the backward pass has the first block's.
    expected += blocks[0].forward_communication - blocks[n - 1].forward_communication;
    CAPTURE(seed);
    REQUIRE(rounds_time(all_rounds(blocks, {}), {}) == expected);
  }
}

}  // namespace trimtab::tuner
