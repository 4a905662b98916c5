#include "rank_rings.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "hand_made_ring.hpp"

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
    REQUIRE(rings.attach(1, ring.descriptor(), {"j", "{}", false}, RankIdentity{"j", "", 0}).ok());
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
  RankRings rings{ring.clock};
};

const std::string kForward = "operator_forward a-key bfloat16 samples=4 tp=1 default";

}  // namespace

TEST_CASE("where CUPTI cannot say what the device does the host's time is no operator's cost") {
  Rig rig;
  for (std::uint64_t i = 0; i < 5; ++i) rig.pass(kNow - 100 + i, kNow - 50 + i);
  SECTION("there is no CUDA") {
    CHECK(rig.counts()[kForward] == 3);  // but for the first two
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

TEST_CASE("full detail is asked of the process whose ring it is") {
  Rig rig;
  rig.rings.ask_full_detail(2, 5);
  CHECK(rig.ring.header().full_detail_until_ns == 0);
  rig.rings.ask_full_detail(1, 5);
  CHECK(rig.ring.header().full_detail_until_ns == 5);
}
