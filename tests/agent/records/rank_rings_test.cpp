#include "records/rank_rings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "../hand_made_ring.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using namespace trimtab::agent::test;

namespace {

constexpr std::uint64_t kNow = 1'700'000'000'000'000'000;

struct Rig {
  Rig() {
    ring.clock.advance(Nanoseconds(kNow) - ring.clock.wall());
    ring.set_name(1, "op/a/forward");
    ring.set_name(2, "trimtab");
    REQUIRE(rings.attach(1, ring.descriptor(), {"j", "{}"}, RankIdentity{"j", "", 0}).ok());
    FoldContext context;
    context.dtype = "bfloat16";
    context.operators["a"] = {"a-key", 1, "default"};
    rings.set_context(1, 0, context, true);
  }
  void pass(std::uint64_t begin_ns, std::uint64_t end_ns) {
    record::RecordSlot& slot = ring.claim();
    slot.begin_ns = begin_ns;
    slot.end_ns = end_ns;
    slot.payload = 4;
    slot.flags = record::kPayloadValid;
    slot.name = 1;
    slot.domain = 2;
    slot.kind = record::kRange;
    slot.sequence.fetch_add(1);
  }
  // How often each cost was measured, when the process has ended.
  std::map<std::string, std::uint64_t> counts() {
    rings.producer_ended(1);
    rings.drain();
    CostCollection collected;
    rings.take(collected);
    std::map<std::string, std::uint64_t> found;
    collected.flush([&](const CostOrigin&, const std::vector<Cost>& costs) {
      for (const Cost& cost : costs) found[describe(cost.key)] += cost.statistics.count();
      return true;
    });
    return found;
  }
  HandMadeRing ring;
  RankRings rings{ring.clock, {}};
};

// Of one such cost, whether it was disturbed.
std::set<bool> marks(const Disturbance& disturbance) {
  Rig rig;
  for (std::uint64_t i = 0; i < 5; ++i) rig.pass(kNow - 100 + i, kNow - 50 + i);
  rig.rings.producer_ended(1);
  rig.rings.drain();
  CostCollection collected;
  rig.rings.take(collected, disturbance);
  std::set<bool> found;
  collected.flush([&](const CostOrigin&, const std::vector<Cost>& costs) {
    for (const Cost& cost : costs) {
      if (cost.key.kind == CostKind::kOperatorForward) found.insert(cost.source.disturbed);
    }
    return true;
  });
  return found;
}

const std::string kForward = "operator_forward a-key bfloat16 samples=4 tp=1 default";

}  // namespace

TEST_CASE("where CUPTI cannot say what the device does the host's time is no operator's cost") {
  Rig rig;
  for (std::uint64_t i = 0; i < 5; ++i) rig.pass(kNow - 100 + i, kNow - 50 + i);
  SECTION("there is no CUDA") {
    CHECK(rig.counts()[kForward] == 3);  // but for the first two
  }
  SECTION("there is CUDA, and CUPTI is off or was never called") {
    rig.ring.header().cupti_state = GENERATE(record::kCuptiSwitchedOff, record::kCuptiNotInjected);
    CHECK_FALSE(rig.counts().contains(kForward));  // also when the process ends at once
  }
  SECTION("there is CUDA and no CUPTI") {
    rig.ring.header().cupti_state = record::kCuptiNoLibrary;
    rig.rings.drain();
    CHECK(rig.rings.activities().at({"j", "", 0}).on_device);
    for (std::uint64_t i = 0; i < 5; ++i) rig.pass(kNow - 100 + i, kNow - 50 + i);
    const auto counts = rig.counts();
    CHECK_FALSE(counts.contains(kForward));
    CHECK(counts.contains("range op/a/forward"));
  }
}

TEST_CASE("what a pass took while others or a GPU's clock disturbed it is told apart") {
  CHECK(marks({}) == std::set{false});
  CHECK(marks({.others = true}) == std::set{true});
  CHECK(marks({.gpus = true}) == std::set{true});
}

TEST_CASE("a record from the future is refused and counted") {
  Rig rig;
  rig.pass(kNow + 3'600'000'000'000, kNow + 3'600'000'000'001);
  for (std::uint64_t i = 0; i < 5; ++i) rig.pass(kNow + i, kNow + 30'000'000'000 + i);
  CHECK(rig.counts()[kForward] == 3);
  CHECK(rig.rings.counters().malformed == 1);
}

TEST_CASE("what is folded only when the process ends is counted, too") {
  Rig rig;
  for (std::uint64_t i = 0; i < 3; ++i) {
    record::RecordSlot& slot = rig.ring.claim();
    slot.begin_ns = kNow + 1000 * i;
    slot.end_ns = slot.begin_ns + 500;
    slot.name = 1;
    slot.kind = record::kKernel;
    slot.sequence.fetch_add(1);
  }
  rig.rings.drain();
  CHECK(rig.rings.counters().kernels == 3);
  CHECK(rig.rings.counters().overlaps == 0);
  (void)rig.counts();
  CHECK(rig.rings.counters().overlaps == 2);  // the last one waits for another to say that it ended alone
}

namespace {

// Each look at it takes a millisecond: as if folding took that long.
class SlowClock final : public Clock {
 public:
  [[nodiscard]] Nanoseconds monotonic() const override { return now_ += std::chrono::milliseconds(1); }
  [[nodiscard]] Nanoseconds wall() const override { return Nanoseconds(kNow); }

 private:
  mutable Nanoseconds now_{1};
};

std::uint64_t records_of(RankRings& rings) {
  return rings.counters().records + rings.counters().malformed;
}

}  // namespace

TEST_CASE("a ring that takes all the time of a drain is left in the middle, and the others come first the next time") {
  constexpr std::uint32_t kMany = 1U << 16;
  HandMadeRing large(kBytes + (kMany - kSlots) * sizeof(record::RecordSlot));
  large.header().slot_capacity = kMany;
  HandMadeRing small;
  SlowClock clock;
  RankRings rings(clock, {});
  REQUIRE(rings.attach(1, large.descriptor(), {"j", "{}"}, RankIdentity{"j", "", 0}).ok());
  REQUIRE(rings.attach(2, small.descriptor(), {"j", "{}"}, RankIdentity{"j", "", 1}).ok());
  rings.producer_ended(1);
  large.header().head.store(kMany);  // without a record
  small.publish(1);
  rings.drain();
  const std::uint64_t first = rings.counters().malformed;
  CHECK(first > 0);
  CHECK(first < kMany / 2);
  CHECK(rings.counters().records == 0);
  for (int i = 0; i < 10; ++i) rings.drain();  // some do nothing, for what the first took too long
  CHECK(rings.counters().records == 1);
  CHECK(records_of(rings) > first + 1);
}

TEST_CASE("a process that makes up changes of plan cannot fill the link with them") {
  Rig rig;
  std::size_t told = 0;
  rig.rings.on_picture = [&](net::LocalPeerId, const StepPicture&) { ++told; };
  rig.ring.set_name(3, "switch");
  rig.ring.set_name(4, "step");
  const auto publish = [&](std::uint32_t name) {
    rig.pass(kNow - 10, kNow - 5);
    rig.ring.slot(rig.ring.header().head.load() - 1).name = name;
  };
  const auto change_plan = [&](int times) {
    for (int i = 0; i < times; ++i) {
      publish(3);
      for (int step = 0; step < 4; ++step) publish(4);  // the fourth is pictured
    }
    rig.rings.drain();
  };
  change_plan(12);
  CHECK(told == 8);
  CHECK(rig.rings.counters().malformed == 4);
  change_plan(2);
  CHECK(told == 10);
}

TEST_CASE("a process is read from some rings at most, the others from theirs") {
  HandMadeRing ring;
  RankRings rings(ring.clock, {});
  const auto attach = [&](net::LocalPeerId peer, pid_t process) {
    return rings.attach(peer, ring.descriptor(), {"j", "{}"}, std::nullopt, process).ok();
  };
  for (net::LocalPeerId peer = 0; peer < RankRings::kMostOfProcess; ++peer) CHECK(attach(peer, 77));
  CHECK_FALSE(attach(10, 77));
  CHECK(attach(11, 78));
  rings.producer_ended(0);
  rings.drain();
  CHECK(attach(10, 77));
  for (net::LocalPeerId peer = 100; rings.size() < RankRings::kMost; ++peer)
    CHECK(attach(peer, static_cast<pid_t>(peer)));
  CHECK_FALSE(attach(2000, 2000));
}

TEST_CASE("rings take no more memory than a process and an agent may read") {
  HandMadeRing ring;
  constexpr auto kRing = static_cast<Bytes>(kBytes);
  RankRings rings(ring.clock, {2 * kRing, 3 * kRing + 1});
  const auto attach = [&](net::LocalPeerId peer, pid_t process) {
    return rings.attach(peer, ring.descriptor(), {"j", "{}"}, std::nullopt, process);
  };
  CHECK(attach(1, 77).ok());
  CHECK(attach(2, 77).ok());
  const Status third = attach(3, 77);
  REQUIRE_FALSE(third.ok());
  CHECK(third.error().message.find("and 0 are left for it: give the job fewer TRIMTAB_RING_SLOTS") !=
        std::string::npos);
  CHECK(attach(4, 78).ok());
  const Status other = attach(5, 79);
  REQUIRE_FALSE(other.ok());
  CHECK(other.error().message.find("and 1 are left") != std::string::npos);
  CHECK(rings.counters().refused_rings == 2);
  CHECK(rings.bytes() == 3 * kRing);
  rings.producer_ended(1);
  rings.drain();
  CHECK(attach(6, 77).ok());  // what a ring took is free again when it has gone
}

TEST_CASE("full detail is asked of the process whose ring it is") {
  Rig rig;
  rig.rings.ask_full_detail(2, 5);
  CHECK(rig.ring.header().full_detail_until_ns == 0);
  rig.rings.ask_full_detail(1, 5);
  CHECK(rig.ring.header().full_detail_until_ns == 5);
}

namespace {

constexpr std::uint64_t kAhead = 400'000'000'000;  // of the GPU's clock: more than any record's future

void put(HandMadeRing& ring, const record::RecordSlot& fields) {
  record::RecordSlot& slot = ring.claim();
  slot.begin_ns = fields.begin_ns;
  slot.end_ns = fields.end_ns;
  slot.payload = fields.payload;
  slot.name = fields.name;
  slot.domain = fields.domain;
  slot.thread = fields.thread;
  slot.kind = fields.kind;
  slot.flags = fields.flags;
  slot.depth = fields.depth;
  for (std::size_t i = 0; i < 7; ++i) slot.detail[i] = fields.detail[i];
  slot.sequence.fetch_add(1);
}

void put_clock(HandMadeRing& ring, std::int64_t difference, record::ClockBound bound, std::uint64_t host_ns = kNow) {
  record::RecordSlot clock{};
  clock.kind = record::kClock;
  clock.begin_ns = clock.end_ns = host_ns + kAhead;
  clock.payload = difference;
  clock.domain = 4;
  clock.detail[0] = bound;
  put(ring, clock);
}

void put_collective(HandMadeRing& ring, std::uint64_t host_ns) {
  record::RecordSlot collective{};
  collective.kind = record::kCollective;
  collective.begin_ns = host_ns + kAhead;
  collective.end_ns = host_ns + kAhead + 100'000;
  collective.payload = 1 << 20;
  collective.flags = record::kPayloadValid;
  collective.name = 3;
  collective.domain = 4;
  collective.depth = 8;
  collective.detail[0] = 2;
  collective.detail[2] = 1;
  put(ring, collective);
}

}  // namespace

TEST_CASE("a collective's stamps are put on the host's clock, and told to the other ranks as they are") {
  Rig rig;
  rig.ring.set_name(3, "AllReduce");
  rig.ring.set_name(4, "00000000000000ab");
  const auto ahead = static_cast<std::int64_t>(kAhead);
  put_clock(rig.ring, ahead - 3'000, record::kReadAfter);
  put_clock(rig.ring, ahead + 9'000, record::kReadBefore);
  put_collective(rig.ring, kNow - 1'000'000);
  rig.rings.drain();
  CHECK(rig.rings.counters().malformed == 0);
  CHECK(rig.rings.counters().collectives_folded == 1);
  const auto activity = rig.rings.activities().at({"j", "", 0});
  REQUIRE(activity.gpu_clock);
  CHECK(activity.gpu_clock->ns == ahead + 3'000);
  // Half of what lies between the bounds, and what the clocks may have drifted in a millisecond.
  CHECK(activity.gpu_clock->uncertainty_ns == 6'500);
  std::vector<CollectiveStamp> stamps;
  rig.rings.take_collectives([&](const RankRings::RankCollectives& rank) { stamps = rank.stamps; });
  REQUIRE(stamps.size() == 1);
  CHECK(stamps[0].begin_ns == kNow - 1'000'000 + kAhead);
  REQUIRE(stamps[0].gpu_ahead);
  CHECK(stamps[0].gpu_ahead->ns == ahead + 3'000);
  CHECK(stamps[0].gpu_ahead->uncertainty_ns == 6'500);
}

TEST_CASE("a kernel of NCCL's is known by its collective although the GPU's clock is another") {
  // Kernels of NCCL's beside a computation: the cost's key has the collective's bytes only where the two were joined.
  const auto keys = [](std::int64_t uncertainty_ns) {
    Rig rig;
    rig.ring.set_name(3, "AllReduce");
    rig.ring.set_name(4, "00000000000000ab");
    rig.ring.set_name(5, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)");
    rig.ring.set_name(6, "sm90_xmma_gemm_bf16");
    std::map<std::string, std::uint64_t> found;
    const auto kernel = [&](std::uint32_t name, std::uint32_t stream, std::uint64_t begin_ns, std::uint64_t length_ns) {
      record::RecordSlot one{};
      one.kind = record::kKernel;
      one.name = name;
      one.thread = stream;
      one.begin_ns = begin_ns;
      one.end_ns = begin_ns + length_ns;
      one.domain = 8;
      put(rig.ring, one);
    };
    const auto ahead = static_cast<std::int64_t>(kAhead);
    std::uint64_t at = kNow - 20'000'000'000;
    for (int i = 0; i < 4000; ++i, at += 1'000'000) {
      if (uncertainty_ns > 0 && i % 500 == 0) {
        put_clock(rig.ring, ahead - uncertainty_ns, record::kReadAfter, at);
        put_clock(rig.ring, ahead + uncertainty_ns, record::kReadBefore, at);
      }
      if (i % 2 == 0) {
        put_collective(rig.ring, at);
        kernel(5, 20, at - 2'000, 104'000);
        kernel(6, 7, at - 10'000, i % 4 == 0 ? 200'000 : 180'000);
      } else {
        kernel(6, 7, at, 100'000);
      }
      rig.rings.drain();
    }
    return rig.counts();
  };
  const auto with = [](const std::map<std::string, std::uint64_t>& counts, const std::string& part) {
    return std::ranges::any_of(counts, [&](const auto& one) {
      return one.first.find("overlap_computation") != std::string::npos && one.first.find(part) != std::string::npos;
    });
  };
  const auto joined = keys(3'000);
  const auto apart = keys(0);
  const auto unsure = keys(2'500'000);  // there is a collective every two milliseconds
  for (const auto& [key, count] : joined) UNSCOPED_INFO("joined: " << key << " " << count);
  for (const auto& [key, count] : apart) UNSCOPED_INFO("apart: " << key << " " << count);
  CHECK(with(joined, "1048576"));
  CHECK_FALSE(with(apart, "1048576"));
  CHECK_FALSE(with(unsure, "1048576"));
}

TEST_CASE(
    "a rank's device numbers are known by UUID as soon as its process has told them, a second time for the later one") {
  Rig rig;
  rig.ring.set_name(3, "GPU-0000");
  rig.ring.set_name(4, "MIG-1111");
  const auto tell = [&](std::uint16_t number, std::uint32_t name) {
    record::RecordSlot& slot = rig.ring.claim();
    slot.begin_ns = slot.end_ns = kNow;
    slot.name = name;
    slot.depth = number;
    slot.kind = record::kDevice;
    slot.sequence.fetch_add(1);
  };
  tell(0, 3);
  tell(2, 3);
  tell(2, 4);
  rig.rings.drain();
  CHECK(rig.rings.activities().at({"j", "", 0}).devices ==
        std::map<std::uint16_t, std::string>{{0, "GPU-0000"}, {2, "MIG-1111"}});
  CHECK(rig.rings.counters().malformed == 0);
  const auto traced = rig.rings.rings_of("j");
  REQUIRE(traced.size() == 1);
  CHECK(traced[0].names.size() == 2);
}
