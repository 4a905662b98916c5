#include "costs/collective_join.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "schema/nccl.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

constexpr std::uint64_t kEpoch = 1'700'000'000'000'000'000;

// A group whose ranks' clocks are apart.
struct Group {
  std::vector<std::int64_t> clocks;
  std::uint64_t communicator = 0xabc;
  CollectiveJoin join{};
  std::uint32_t sequence = 0;
  std::uint64_t now = kEpoch;
  bool hosts = true;                   // their clocks are known
  std::int64_t unsure = 500;           // each GPU's clock of its host's
  std::vector<std::uint32_t> nodes{};  // by rank; empty: all on one
  std::vector<std::int64_t> lies{};    // by rank, of what is said of its clock

  explicit Group(std::vector<std::int64_t> clock_offsets) : clocks(std::move(clock_offsets)) {}

  [[nodiscard]] RankStamp stamp(std::uint32_t rank, std::int64_t begin, std::int64_t end) const {
    RankStamp stamp;
    stamp.facts = {
        communicator, nccl::kAllReduce, nccl::kRing, nccl::kSimple, 8, static_cast<std::uint32_t>(clocks.size()), 1,
        4096};
    stamp.sequence = sequence;
    stamp.rank = rank;
    stamp.job_rank = 100 + rank;
    stamp.begin_ns = static_cast<std::uint64_t>(static_cast<std::int64_t>(now) + begin + clocks[rank]);
    stamp.end_ns = static_cast<std::uint64_t>(static_cast<std::int64_t>(now) + end + clocks[rank]);
    if (!hosts) return stamp;
    const std::int64_t lie = lies.empty() ? 0 : lies[rank];
    stamp.clock =
        StampClock{nodes.empty() ? 0 : nodes[rank], {clocks[rank] + lie, static_cast<std::uint64_t>(unsure)}, {}};
    return stamp;
  }
  // One collective whose ranks come at these times and which takes `transfer` from the last one on.
  std::optional<JoinedCollective> run(const std::vector<std::int64_t>& begins, std::int64_t transfer,
                                      std::int64_t noise = 0) {
    std::optional<JoinedCollective> joined;
    const std::int64_t end = *std::max_element(begins.begin(), begins.end()) + transfer;
    for (std::uint32_t rank = 0; rank < clocks.size(); ++rank) {
      joined = join.add(stamp(rank, begins[rank], end + (rank % 2 == 0 ? 0 : noise)), Nanoseconds(1));
    }
    ++sequence;
    now += 10'000'000;
    return joined;
  }
};

}  // namespace

TEST_CASE("the transfer is counted from the last one on, and the others have waited", "[nccl]") {
  Group group({0, 0, 0, 0});
  const auto joined = group.run({0, 300'000, 100'000, 50'000}, 70'000);
  REQUIRE(joined);
  CHECK(joined->transfer_ns == 70'000);
  CHECK(joined->waiting_ns == std::vector<std::int64_t>{300'000, 0, 200'000, 250'000});
  CHECK(joined->job_ranks == std::vector<std::uint32_t>{100, 101, 102, 103});
  REQUIRE(joined->late_job_rank);
  CHECK(*joined->late_job_rank == 101);
}

TEST_CASE("clocks that are hours apart change nothing, from the first collective on", "[nccl]") {
  Group group({0, 7'200'000'000'000, -5'000'000'000, 123});
  for (int i = 0; i < 30; ++i) {
    const auto joined = group.run({10'000, 0, 45'000 + i * 1000, 20'000}, 90'000);
    REQUIRE(joined);
    CHECK(joined->transfer_ns == 90'000);
    CHECK(joined->waiting_ns[1] == 45'000 + i * 1000);
    CHECK(joined->late_job_rank == std::optional<std::uint32_t>(102));
  }
  CHECK(group.join.counters().joined == 30);
  CHECK(group.join.counters().implausible == 0);
}

TEST_CASE("known clocks see through ends that differ by a hop", "[nccl]") {
  Group group({0, 1'000'000, 0, -1'000'000});
  group.hosts = GENERATE(false, true);
  for (int i = 0; i < 12; ++i) (void)group.run({0, 0, 0, 0}, 200'000);
  // Odd ranks end 4 µs later this time: without known clocks their beginnings would seem 4 µs earlier.
  const auto joined = group.run({0, 0, 100'000, 0}, 200'000, 4'000);
  REQUIRE(joined);
  CHECK(joined->transfer_ns == 200'000);
  CHECK(joined->waiting_ns == std::vector<std::int64_t>{100'000, 100'000, 0, 100'000});
}

TEST_CASE("a clock that drifts is not believed beyond what the ends say", "[nccl]") {
  Group group({0, 0});
  group.hosts = false;
  for (int i = 0; i < 200; ++i) {
    group.clocks[1] += 50'000;  // 50 µs in 10 ms
    const auto joined = group.run({0, 30'000}, 100'000);
    REQUIRE(joined);
    CHECK(joined->transfer_ns == 100'000);
    CHECK(joined->waiting_ns == std::vector<std::int64_t>{30'000, 0});
  }
}

TEST_CASE("a clock that was set costs a few collectives, then it is known again", "[nccl]") {
  Group group({0, 0});
  group.hosts = false;
  for (int i = 0; i < 20; ++i) REQUIRE(group.run({0, 30'000}, 100'000));
  group.clocks[1] = 3'600'000'000'000;
  int refused = 0;
  for (int i = 0; i < 20; ++i) refused += group.run({0, 30'000}, 100'000) ? 0 : 1;
  CHECK(refused == 5);
  CHECK(group.join.counters().implausible == 5);
  CHECK(group.run({0, 30'000}, 100'000)->transfer_ns == 100'000);
}

TEST_CASE("nobody is late when all come nearly together", "[nccl]") {
  Group group({0, 0, 0});
  CHECK_FALSE(group.run({0, 15'000, 5'000}, 50'000)->late_job_rank);
  CHECK_FALSE(group.run({0, 80'000, 5'000}, 1'000'000)->late_job_rank);
  CHECK(group.run({0, 200'000, 5'000}, 1'000'000)->late_job_rank == std::optional<std::uint32_t>(101));
}

TEST_CASE("nobody is called late whose clock is less sure than it is late", "[nccl]") {
  Group group({0, 5'000'000'000, -70'000});
  for (const std::int64_t unsure : {10'000, 49'000, 51'000, 5'000'000}) {
    group.unsure = unsure;  // of two clocks, twice that
    const auto joined = group.run({0, 100'000, 5'000}, 150'000);
    REQUIRE(joined);
    CHECK(joined->transfer_ns == 150'000);
    CHECK(joined->waiting_ns == std::vector<std::int64_t>{100'000, 0, 95'000});
    CHECK(joined->late_job_rank.has_value() == (unsure < 47'500));
  }
  CHECK(group.join.counters().unsure == 3);
  group.hosts = false;
  CHECK_FALSE(group.run({0, 100'000'000, 5'000}, 150'000)->late_job_rank);
  CHECK(group.join.counters().unsure == 4);
}

TEST_CASE("between hosts their clocks' round trips count, within one they do not", "[nccl]") {
  Group group({40'000, 9'000'000, 10'000'000, -3});
  group.nodes = {0, 0, 1, 1};
  const auto with_hosts = [&](std::int64_t late, std::uint32_t who, std::optional<std::uint64_t> unsure) {
    const std::vector<std::int64_t> host_clocks = {15'000'000, 15'000'000, -800'000'000, -800'000'000};
    std::optional<JoinedCollective> joined;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      RankStamp stamp = group.stamp(rank, rank == who ? late : 0, late + 90'000);
      stamp.clock->gpu.ns -= host_clocks[rank];
      if (unsure) stamp.clock->host = {host_clocks[rank], *unsure};
      joined = group.join.add(stamp, Nanoseconds(1));
    }
    ++group.sequence;
    REQUIRE(joined);
    CHECK(joined->transfer_ns == 90'000);
    return joined->late_job_rank;
  };
  CHECK(with_hosts(400'000, 3, 150'000) == 103U);
  CHECK_FALSE(with_hosts(400'000, 3, 250'000));
  CHECK_FALSE(with_hosts(400'000, 3, std::nullopt));
  group.nodes = {1, 1, 1, 1};
  CHECK_FALSE(with_hosts(400'000, 1, std::nullopt));  // they say they share a clock, and their stamps say otherwise
  CHECK(group.join.counters().clocks_wrong == 1);
}

TEST_CASE("a host whose clock lies does not make another rank late", "[nccl]") {
  Group group({0, 0, 0});
  group.nodes = {0, 1, 2};
  for (int i = 0; i < 20; ++i) (void)group.run({0, 0, 0}, 100'000);
  for (const std::int64_t lie : {-2'000'000L, 300'000L, 3'600'000'000'000L}) {
    INFO("lie " << lie);
    const std::uint64_t wrong = group.join.counters().clocks_wrong;
    group.lies = {0, lie, 0};
    std::optional<JoinedCollective> joined;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      RankStamp stamp = group.stamp(rank, rank == 2 ? 80'000 : 0, 180'000);
      stamp.clock->host = {0, 1'000};
      joined = group.join.add(stamp, Nanoseconds(1));
    }
    ++group.sequence;
    REQUIRE(joined);
    CHECK(joined->transfer_ns == 100'000);
    CHECK(joined->waiting_ns == std::vector<std::int64_t>{80'000, 80'000, 0});
    CHECK_FALSE(joined->late_job_rank);
    CHECK(group.join.counters().clocks_wrong == wrong + 1);
  }
}

TEST_CASE("hosts' clocks that are sure correct what the ends' differences leave", "[nccl]") {
  // On this communicator rank 1 always ends 30 µs after rank 0: the ends alone would take that for its clock.
  Group group({0, 0});
  for (int i = 0; i < 12; ++i) {
    const auto joined = group.run({0, 0}, 200'000, 30'000);
    REQUIRE(joined);
    CHECK(joined->waiting_ns[0] <= 1'000);
    CHECK(joined->waiting_ns[1] <= 1'000);
  }
  const auto joined = group.run({0, 50'000}, 200'000, 30'000);
  CHECK(joined->waiting_ns[0] >= 49'000);
  CHECK(joined->late_job_rank == 101U);
}

TEST_CASE("a batch that comes twice counts once", "[nccl]") {
  Group group({0, 0, 0});
  std::vector<RankStamp> batch;
  for (std::uint32_t rank = 0; rank < 3; ++rank) batch.push_back(group.stamp(rank, 0, 1000));
  int joined = 0;
  for (int times = 0; times < 3; ++times) {
    for (const RankStamp& stamp : batch) {
      joined += group.join.add(stamp, Nanoseconds(1)) ? 1 : 0;
      joined += group.join.add(stamp, Nanoseconds(1)) ? 1 : 0;
    }
  }
  CHECK(joined == 1);
  CHECK(group.join.counters().joined == 1);
  CHECK(group.join.counters().repeated == 15);
  CHECK(group.join.pending() == 0);
}

TEST_CASE("a rank whose stamps never come leaves nothing behind but a count", "[nccl]") {
  Group group({0, 0, 0});
  for (std::uint32_t i = 0; i < 10; ++i) {
    group.sequence = i;
    CHECK_FALSE(group.join.add(group.stamp(0, 0, 1000), std::chrono::seconds(i)));
    CHECK_FALSE(group.join.add(group.stamp(2, 0, 1000), std::chrono::seconds(i)));
  }
  group.join.expire(std::chrono::seconds(34));
  CHECK(group.join.counters().incomplete == 5);
  CHECK(group.join.pending() == 5);
  group.join.expire(std::chrono::seconds(60));
  CHECK(group.join.pending() == 0);
  group.sequence = 3;
  CHECK_FALSE(group.join.add(group.stamp(1, 0, 1000), std::chrono::seconds(61)));  // too late
  CHECK(group.join.pending() == 0);
}

TEST_CASE("ranks that say different things of one collective are not joined", "[nccl]") {
  Group group({0, 0});
  RankStamp other = group.stamp(1, 0, 1000);
  other.facts.bytes = 8192;
  CHECK_FALSE(group.join.add(group.stamp(0, 0, 1000), Nanoseconds(1)));
  CHECK_FALSE(group.join.add(other, Nanoseconds(1)));
  CHECK(group.join.counters().contradictory == 1);
  CHECK(group.join.pending() == 0);
}

TEST_CASE("what cannot be joined is refused at once", "[nccl]") {
  Group group({0, 0});
  const auto refused = [&](auto change) {
    RankStamp stamp = group.stamp(0, 0, 1000);
    change(stamp);
    const std::uint64_t before = group.join.counters().unfit;
    (void)group.join.add(stamp, Nanoseconds(1));
    return group.join.counters().unfit == before + 1;
  };
  CHECK(refused([](RankStamp& stamp) { stamp.facts.function = nccl::kBroadcast; }));
  CHECK(refused([](RankStamp& stamp) { stamp.facts.function = nccl::kUnknown; }));
  CHECK(refused([](RankStamp& stamp) { stamp.facts.ranks = 1; }));
  CHECK(refused([](RankStamp& stamp) { stamp.facts.ranks = 70'000; }));
  CHECK(refused([](RankStamp& stamp) { stamp.rank = 2; }));
  CHECK(refused([](RankStamp& stamp) { stamp.facts.bytes = 0; }));
  CHECK(refused([](RankStamp& stamp) { stamp.end_ns = stamp.begin_ns - 1; }));
  CHECK(refused([](RankStamp& stamp) { stamp.end_ns = ~std::uint64_t{0}; }));
  CHECK(refused([](RankStamp& stamp) { stamp.begin_ns = 0; }));
  CHECK(group.join.pending() == 0);
}

TEST_CASE("memory is bounded by collectives, by ranks and by communicators", "[nccl]") {
  Group group(std::vector<std::int64_t>(1000, 0));
  group.join = CollectiveJoin({.pending = 50, .stamps = 20'000, .communicators = 3});
  for (std::uint32_t i = 0; i < 200; ++i) {
    group.sequence = i;
    (void)group.join.add(group.stamp(0, 0, 1000), Nanoseconds(1));
    CHECK(group.join.pending() <= 20);
  }
  CHECK(group.join.counters().incomplete == 180);
  Group small({0, 0});
  small.join = CollectiveJoin({.pending = 50, .stamps = 20'000, .communicators = 3});
  for (std::uint32_t i = 0; i < 200; ++i) {
    small.communicator = i;
    CHECK(small.run({0, 0}, 1000));
  }
}

TEST_CASE("any stamps in any order give sane answers", "[nccl]") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  CollectiveJoin join({.pending = 64, .stamps = 1000, .communicators = 4});
  for (int i = 0; i < 200'000; ++i) {
    RankStamp stamp;
    stamp.facts = {random() % 6,
                   static_cast<std::uint8_t>(2 + random() % 3),
                   1,
                   2,
                   8,
                   static_cast<std::uint32_t>(2 + random() % 2),
                   1,
                   4096};
    stamp.sequence = static_cast<std::uint32_t>(random() % 50 + static_cast<unsigned>(i) / 100);
    stamp.rank = static_cast<std::uint32_t>(random() % 3);
    stamp.begin_ns = random() >> (random() % 60);
    stamp.end_ns = stamp.begin_ns + (random() >> (20 + random() % 40));
    const auto any = [&] {
      return ClockDifference::Offset{static_cast<std::int64_t>(random() >> (random() % 64)),
                                     random() >> (random() % 64)};
    };
    if (random() % 4 != 0) stamp.clock = StampClock{static_cast<std::uint32_t>(random() % 2), any(), any()};
    if (stamp.clock && random() % 2 == 0)
      stamp.clock->gpu.ns = static_cast<std::int64_t>(stamp.begin_ns - random() % 1'000'000);
    const auto joined = join.add(stamp, Nanoseconds(i));
    if (!joined) continue;
    CHECK(joined->transfer_ns >= 0);
    for (const std::int64_t waiting : joined->waiting_ns) CHECK(waiting >= 0);
  }
  CHECK(join.counters().joined > 0);
  CHECK(join.pending() <= 64);
}
