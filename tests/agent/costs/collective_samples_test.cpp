#include "costs/collective_samples.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "schema/nccl.hpp"

using namespace trimtab;
using agent::CollectiveSamples;
using agent::RangeRecord;

namespace {

RangeRecord collective(std::uint32_t sequence, std::uint64_t begin_ns, std::uint16_t rank = 1) {
  RangeRecord record;
  record.kind = record::kCollective;
  record.name = "AllReduce";
  record.domain = "c0ffee0000000001";
  record.thread = sequence;
  record.payload = 4096;
  record.begin_ns = begin_ns;
  record.end_ns = begin_ns + 500;
  record.depth = 8;
  record.detail = {16, rank, 2, nccl::kRing, nccl::kSimple, 7, 0};
  return record;
}

RangeRecord transfer(std::uint64_t begin_ns, std::uint16_t rank = 1) {
  RangeRecord record = collective(rank == 1 ? 2 : 1, begin_ns, rank);  // `thread` is the peer
  record.kind = record::kP2p;
  record.name = rank == 1 ? "Send" : "Recv";
  record.detail[3] = record.detail[4] = nccl::kUnknown;
  return record;
}

constexpr ClockDifference::Offset kAhead{5000, 10};

}  // namespace

TEST_CASE("a rank's collectives are kept with what the join needs", "[nccl]") {
  CollectiveSamples samples;
  samples.add(collective(7, 1000));
  const auto stamps = samples.take();
  REQUIRE(stamps.size() == 1);
  CHECK(stamps[0].communicator == 0xc0ffee0000000001);
  CHECK(stamps[0].function == nccl::kAllReduce);
  CHECK(stamps[0].algorithm == nccl::kRing);
  CHECK(stamps[0].protocol == nccl::kSimple);
  CHECK(stamps[0].channels == 8);
  CHECK(stamps[0].sequence == 7);
  CHECK(stamps[0].ranks == 16);
  CHECK(stamps[0].rank == 1);
  CHECK(stamps[0].nodes == 2);
  CHECK(stamps[0].bytes == 4096);
  CHECK(stamps[0].begin_ns == 1000);
  CHECK(stamps[0].end_ns == 1500);
  CHECK(samples.take().empty());
}

TEST_CASE("fused collectives have no time of their own, whoever notices it", "[nccl]") {
  CollectiveSamples samples;
  samples.add(collective(1, 1000));
  samples.add(collective(2, 2000));  // these two began together
  samples.add(collective(3, 2000));
  RangeRecord marked = collective(4, 3000);
  marked.flags = record::kFused;
  samples.add(marked);
  samples.add(collective(5, 4000));
  std::set<std::uint32_t> kept;
  for (const auto& stamp : samples.take()) kept.insert(stamp.sequence);
  CHECK(kept == std::set<std::uint32_t>{1, 5});
  CHECK(samples.counters().fused == 3);
}

TEST_CASE("records that cannot be joined are counted", "[nccl]") {
  CollectiveSamples samples;
  const auto add = [&](auto change) {
    RangeRecord record = collective(1, 1000);
    change(record);
    samples.add(record);
  };
  add([](RangeRecord& record) { record.domain = ""; });
  add([](RangeRecord& record) { record.domain = "c0ffee000000000g"; });
  add([](RangeRecord& record) { record.name = "(unnamed)"; });
  add([](RangeRecord& record) { record.detail[0] = 1; });
  add([](RangeRecord& record) { record.detail[1] = 16; });
  add([](RangeRecord& record) { record.detail[0] = 65535; });
  add([](RangeRecord& record) { record.payload = 0; });
  CHECK(samples.counters().unfit == 7);
  add([](RangeRecord& record) { record.kind = record::kP2p; });  // has samples of its own
  add([](RangeRecord& record) { record.kind = record::kRange; });
  CHECK(samples.counters().seen == 7);
  CHECK(samples.take().empty());
}

TEST_CASE("sends and receives are kept with their peer, if their clock is known and they ran by themselves", "[nccl]") {
  CollectiveSamples samples(record::kP2p);
  samples.add(transfer(1000), kAhead);
  samples.add(transfer(2000, 2), kAhead);
  samples.add(transfer(3000), kAhead);  // these two began together
  samples.add(transfer(3000, 2), kAhead);
  samples.add(transfer(4000));
  RangeRecord oneself = transfer(5000);
  oneself.thread = 1;
  samples.add(oneself, kAhead);
  RangeRecord nobody = transfer(6000);
  nobody.thread = 16;
  samples.add(nobody, kAhead);
  samples.add(collective(7, 7000), kAhead);
  const auto stamps = samples.take();
  REQUIRE(stamps.size() == 2);
  CHECK(stamps[0].function == nccl::kSend);
  CHECK(stamps[0].rank == 1);
  CHECK(stamps[0].peer == 2);
  CHECK(stamps[0].bytes == 4096);
  CHECK(stamps[1].function == nccl::kRecv);
  CHECK(stamps[1].peer == 1);
  CHECK(samples.counters().seen == 7);
  CHECK(samples.counters().fused == 2);
  CHECK(samples.counters().unfit == 3);
}

TEST_CASE("of many transfers both ranks keep those of the same times", "[nccl]") {
  CollectiveSamples sender(record::kP2p);
  CollectiveSamples receiver(record::kP2p);
  std::size_t both = 0;
  std::uint64_t now = 1'000'000'000'000;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 2000; ++i, now += 1'000'000) {
      sender.add(transfer(now), kAhead);
      RangeRecord received = transfer(now + 777'000, 2);  // by another clock
      received.end_ns = now + 777'510;
      receiver.add(received, ClockDifference::Offset{782'000, 10});
    }
    const auto sent = sender.take();
    const auto received = receiver.take();
    CHECK(sent.size() <= CollectiveSamples::kMost);
    std::set<std::uint64_t> begins;
    for (const auto& stamp : sent) begins.insert(stamp.begin_ns);
    for (const auto& stamp : received) both += begins.contains(stamp.begin_ns - 777'000) ? 1 : 0;
    if (round > 5) CHECK(sent.size() >= CollectiveSamples::kMost / 4);
  }
  CHECK(both > 40 * CollectiveSamples::kMost / 5);
}

TEST_CASE("however many there are, a bounded number is kept, and ranks keep the same ones", "[nccl]") {
  CollectiveSamples busy;
  CollectiveSamples busier;
  for (std::uint32_t round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < 5000; ++i) {
      busy.add(collective(round * 5000 + i, 1000 + 10 * i));
      busier.add(collective(round * 5000 + i, 1000 + 10 * i, 2));
      // What only one of them takes part in.
      RangeRecord other = collective(round * 5000 + i, 1000 + 10 * i, 2);
      other.domain = "c0ffee0000000002";
      for (int k = 0; k < 3; ++k) {
        other.begin_ns += 1;
        busier.add(other);
      }
    }
    const auto of_busy = busy.take();
    const auto of_busier = busier.take();
    CHECK(of_busy.size() <= CollectiveSamples::kMost);
    CHECK(of_busier.size() <= CollectiveSamples::kMost);
    CHECK(of_busy.size() >= CollectiveSamples::kMost / 4);
    std::set<std::uint32_t> known;
    for (const auto& stamp : of_busy) known.insert(stamp.sequence);
    if (busier.level() < busy.level()) continue;
    for (const auto& stamp : of_busier) {
      if (stamp.communicator == 0xc0ffee0000000001) CHECK(known.contains(stamp.sequence));
    }
  }
  CHECK(busier.level() > busy.level());
}

TEST_CASE("when it is quiet again, all are kept again", "[nccl]") {
  CollectiveSamples samples;
  for (std::uint32_t i = 0; i < 1000; ++i) samples.add(collective(i, 1000 + 10 * i));
  (void)samples.take();
  REQUIRE(samples.level() > 0);
  for (int i = 0; i < 200; ++i) (void)samples.take();
  CHECK(samples.level() == 0);
}

TEST_CASE("very many communicators take bounded memory and lose nothing", "[nccl]") {
  CollectiveSamples samples;
  std::size_t taken = 0;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    char id[17];
    std::snprintf(id, sizeof(id), "%016x", i);
    RangeRecord record = collective(1, 1000 + i);
    record.domain = id;
    samples.add(record);
    if (i % 30 == 29) taken += samples.take().size();
  }
  CHECK(taken + samples.take().size() == 3000);
}
