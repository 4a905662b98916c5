// The reader against memory that is wrong, hostile or half-written. Rings are laid out by hand: no producer's code
// takes part.

#include "records/ring_reader.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "../hand_made_ring.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "processes/printable_text.hpp"

using namespace trimtab;
using namespace std::chrono_literals;
using agent::RangeRecord;
using agent::RingReader;
using namespace trimtab::agent::test;

namespace {

void ignore(std::span<const RangeRecord>) {}

std::vector<std::int64_t> payloads(RingReader& reader, agent::RingDrain* drain = nullptr) {
  std::vector<std::int64_t> seen;
  const auto done = reader.drain(SIZE_MAX, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) seen.push_back(record.payload);
  });
  if (drain != nullptr) *drain = done;
  return seen;
}

}  // namespace

TEST_CASE("a ring that can be resized is refused") {
  HandMadeRing ring(kBytes, F_SEAL_GROW);
  const auto result = ring.attach();
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().message.find("resized") != std::string::npos);
}

TEST_CASE("what is no memfd is refused") {
  ManualClock clock;
  CHECK_FALSE(RingReader::attach(-1, clock).ok());
  CHECK_FALSE(RingReader::attach(open("/dev/zero", O_RDWR), clock).ok());
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  CHECK_FALSE(RingReader::attach(ends[0], clock).ok());
  CHECK(fcntl(ends[0], F_GETFD) == -1);  // it was taken over and closed all the same
  close(ends[1]);
}

TEST_CASE("a ring of another size, form or version is refused") {
  CHECK_FALSE(HandMadeRing(64).attach().ok());
  const auto refused = [](auto change) {
    HandMadeRing ring;
    change(ring.header());
    const auto result = ring.attach();
    REQUIRE_FALSE(result.ok());
    return result.error().message;
  };
  CHECK(refused([](record::RingHeader& h) { h.version = 2; }).find("version 2") != std::string::npos);
  refused([](record::RingHeader& h) { h.magic = 0; });
  refused([](record::RingHeader& h) { h.slot_capacity = 63; });
  refused([](record::RingHeader& h) { h.slot_capacity = 128; });
  refused([](record::RingHeader& h) { h.slot_capacity = 0; });
  refused([](record::RingHeader& h) { h.slot_capacity = 0x80000000U; });
  refused([](record::RingHeader& h) { h.name_capacity = 0xffffffffU; });
  refused([](record::RingHeader& h) { h.name_capacity = 0x80000000U; });
  refused([](record::RingHeader& h) { h.header_bytes = 0; });
  refused([](record::RingHeader& h) { h.header_bytes = 0xffffffc0U; });
  refused([](record::RingHeader& h) { h.header_bytes = 320; });
  refused([](record::RingHeader& h) { h.head = 1000000; });
  refused([](record::RingHeader& h) { h.tail = 1; });
}

TEST_CASE("a header that grew is read by its own length") {
  HandMadeRing ring(kBytes + 64);
  std::memmove(ring.memory().data() + 256 + 64, ring.memory().data() + 256, kBytes - 256);
  ring.header().header_bytes = 320;
  CHECK(ring.attach().ok());
}

TEST_CASE("nonsense in a slot is counted and passed over") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.set_name(1, "good");
  for (int i = 0; i < 7; ++i) ring.publish(i);
  ring.slot(0).name = kNames;  // beyond the table
  ring.slot(1).domain = 0xffffffffU;
  ring.slot(2).end_ns = 9;  // before its beginning
  ring.slot(3).kind = 99;
  ring.slot(4).sequence.store(12345);  // neither claimed nor published
  ring.slot(5).name = 1;
  ring.slot(6).end_ns = ~std::uint64_t{0};  // a duration that no statistics can hold
  agent::RingDrain drain;
  CHECK(payloads(*reader, &drain) == std::vector<std::int64_t>{5});
  CHECK(drain.malformed == 6);
  CHECK_FALSE(drain.broken);
  ring.publish(100);
  CHECK(payloads(*reader) == std::vector<std::int64_t>{100});
}

TEST_CASE("a name that is not ready yet is replaced now and read later") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.set_name(3, "late");
  ring.name(3).state.store(1);
  std::vector<std::string> names;
  const auto sink = [&](std::span<const RangeRecord> batch) { names.emplace_back(batch[0].name); };
  ring.publish(1);
  ring.slot(0).name = 3;
  reader->drain(1, sink);
  ring.name(3).state.store(2);
  ring.publish(2);
  ring.slot(1).name = 3;
  reader->drain(1, sink);
  CHECK(names == std::vector<std::string>{"(unnamed)", "late"});
}

TEST_CASE("a name is read once: changing it later changes nothing") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.set_name(3, "first");
  std::vector<std::string> names;
  for (int i = 0; i < 2; ++i) {
    ring.publish(1);
    ring.slot(static_cast<std::uint64_t>(i)).name = 3;
    reader->drain(1, [&](std::span<const RangeRecord> batch) { names.emplace_back(batch[0].name); });
    ring.set_name(3, "second");
  }
  CHECK(names == std::vector<std::string>{"first", "first"});
}

TEST_CASE("a name's length is not believed") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.set_name(kNames - 1, std::string(record::kNameBytes, 'x'));
  ring.name(kNames - 1).length = 0xffff;
  ring.publish(1);
  ring.slot(0).name = kNames - 1;
  std::string name;
  reader->drain(1, [&](std::span<const RangeRecord> batch) { name = batch[0].name; });
  CHECK(name == std::string(record::kNameBytes, 'x'));
}

TEST_CASE("a slot that its living producer does not publish is waited for, then passed over") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.claim();
  ring.publish(2);
  CHECK(payloads(*reader).empty());
  ring.clock.advance(1999ms);
  CHECK(payloads(*reader).empty());
  ring.clock.advance(2ms);
  agent::RingDrain drain;
  CHECK(payloads(*reader, &drain) == std::vector<std::int64_t>{2});
  CHECK(drain.skipped == 1);
}

TEST_CASE("a slot that is published in time is not passed over") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  record::RecordSlot& slow = ring.claim();
  slow.kind = record::kRange;
  slow.payload = 1;
  ring.publish(2);
  CHECK(payloads(*reader).empty());
  ring.clock.advance(1s);
  slow.sequence.fetch_add(1);
  CHECK(payloads(*reader) == std::vector<std::int64_t>{1, 2});
  // The next one has the whole time again.
  ring.clock.advance(5s);
  ring.claim();
  agent::RingDrain drain;
  CHECK(payloads(*reader, &drain).empty());
  CHECK(drain.skipped == 0);
}

TEST_CASE("slots that are stuck together are given up together") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  for (int i = 0; i < 5; ++i) ring.claim();
  ring.publish(6);
  CHECK(payloads(*reader).empty());
  ring.clock.advance(3s);
  agent::RingDrain drain;
  CHECK(payloads(*reader, &drain) == std::vector<std::int64_t>{6});
  CHECK(drain.skipped == 5);
}

TEST_CASE("a producer that ended leaves nothing to wait for") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.publish(1);
  ring.claim();
  ring.publish(3);
  ring.claim();
  CHECK_FALSE(reader->finished());
  reader->producer_ended();
  agent::RingDrain drain;
  CHECK(payloads(*reader, &drain) == std::vector<std::int64_t>{1, 3});
  CHECK(drain.skipped == 2);
  CHECK(reader->finished());
}

TEST_CASE("counters that jump break the ring for good, and nothing else") {
  for (const std::uint64_t absurd : {std::uint64_t{1} << 63, std::uint64_t{kSlots + 1}, ~std::uint64_t{0}}) {
    HandMadeRing ring;
    const auto reader = ring.reader();
    ring.publish(1);
    ring.header().head.store(absurd);
    CHECK(reader->drain(SIZE_MAX, ignore).broken);
    ring.header().head.store(1);
    CHECK(reader->drain(SIZE_MAX, ignore).broken);
    CHECK(reader->finished());
  }
}

TEST_CASE("a tail that the producer moved is not believed") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.publish(1);
  ring.header().tail.store(50);
  CHECK(payloads(*reader) == std::vector<std::int64_t>{1});
  CHECK(ring.header().tail.load() == 1);
}

TEST_CASE("drops are reported once; a counter that goes back counts as nothing") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.header().dropped.store(7);
  ring.header().names_dropped.store(2);
  ring.header().untracked.store(3);
  auto drain = reader->drain(1, ignore);
  CHECK(drain.dropped == 7);
  CHECK(drain.names_dropped == 2);
  CHECK(drain.untracked == 3);
  CHECK(reader->drain(1, ignore).dropped == 0);
  ring.header().dropped.store(1);
  CHECK(reader->drain(1, ignore).dropped == 0);
}

TEST_CASE("a drain stops at its limit and says that there is more") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  for (int i = 0; i < 60; ++i) ring.publish(i);
  auto drain = reader->drain(0, ignore);
  CHECK(drain.records == 0);
  CHECK(drain.more);
  drain = reader->drain(1, ignore);
  CHECK(drain.records == 60);  // rounded up to a batch
  CHECK_FALSE(drain.more);
}

TEST_CASE("a drain looks at no more slots than it may, whatever is in them") {
  constexpr std::uint32_t kMany = 4096;
  HandMadeRing ring(kBytes + (kMany - kSlots) * sizeof(record::RecordSlot));
  ring.header().slot_capacity = kMany;
  const auto reader = ring.reader();
  ring.header().head.store(kMany);  // nothing was published
  reader->producer_ended();
  agent::RingDrain drain = reader->drain(1000, ignore);
  CHECK(drain.skipped + drain.malformed == 1024);  // rounded up to a batch
  CHECK(drain.more);
  drain = reader->drain(SIZE_MAX, ignore);
  CHECK(drain.skipped + drain.malformed == kMany - 1024);
  CHECK_FALSE(drain.more);
}

TEST_CASE("a drain begins no batch after its time") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  for (int i = 0; i < 10; ++i) ring.publish(i);
  agent::RingDrain drain = reader->drain(SIZE_MAX, ignore, ring.clock.monotonic() - Nanoseconds(1));
  CHECK(drain.records == 0);
  CHECK(drain.more);
  drain = reader->drain(SIZE_MAX, ignore, ring.clock.monotonic());
  CHECK(drain.records == 10);
}

TEST_CASE("a ring with holes is refused: reading it would take memory here") {
  ManualClock clock;
  const int descriptor = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  constexpr off_t kSize = 1 << 20;
  REQUIRE(ftruncate(descriptor, kSize) == 0);
  REQUIRE(posix_fallocate(descriptor, 0, kSize / 2) == 0);
  REQUIRE(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  const auto attached = RingReader::attach(descriptor, clock);
  REQUIRE_FALSE(attached.ok());
  CHECK(attached.error().message.find("only 524288 of its 1048576 bytes are allocated") != std::string::npos);
}

TEST_CASE("a ring of huge pages is refused: a hole in it can end its reader") {
  ManualClock clock;
  const int descriptor = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (descriptor < 0) {
    WARN("this kernel makes no files of huge pages");
    return;
  }
  REQUIRE(ftruncate(descriptor, 1 << 21) == 0);
  REQUIRE(fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  const auto attached = RingReader::attach(descriptor, clock);
  REQUIRE_FALSE(attached.ok());
  CHECK(attached.error().message.find("huge pages") != std::string::npos);
}

TEST_CASE("random bytes anywhere in a ring never make the reader leave it") {
  const std::uint64_t seed = static_cast<std::uint64_t>(getpid()) * 2654435761U;
  INFO("seed " << seed);
  Random random(seed);
  for (int round = 0; round < 300; ++round) {
    HandMadeRing ring;
    ring.set_name(1, "name");
    for (int i = 0; i < 40; ++i) ring.publish(i);
    const auto reader = ring.reader();
    for (int step = 0; step < 8; ++step) {
      for (std::uint64_t change = random.below(40); change-- > 0;) {
        // Often in the header, where it hurts most.
        const std::size_t at = random.below(random.below(2) == 0 ? sizeof(record::RingHeader) : kBytes);
        ring.memory()[at] = static_cast<char>(random.next());
      }
      const auto drain = reader->drain(SIZE_MAX, [](std::span<const RangeRecord> batch) {
        for (const RangeRecord& record : batch) {
          REQUIRE(record.end_ns >= record.begin_ns);
          REQUIRE(record.duration_ns() <= std::int64_t{1} << 60);
          REQUIRE(record.name.size() <= record::kNameBytes);
          REQUIRE(agent::printable_text(record.name) == record.name);
        }
      });
      REQUIRE(drain.records + drain.skipped + drain.malformed <= kSlots);
      ring.clock.advance(1s);
      if (random.below(4) == 0) reader->producer_ended();
    }
    (void)ring.attach().ok();
  }
}

TEST_CASE("text from a job becomes printable UTF-8") {
  using agent::printable_text;
  CHECK(printable_text("op/a/forward") == "op/a/forward");
  CHECK(printable_text("\u00e9\u20ac\U0001F600") == "\u00e9\u20ac\U0001F600");
  CHECK(printable_text("a\nb\tc\x7f\x1b[2J") == "a?b?c??[2J");
  CHECK(printable_text("\xff\xfe") == "??");
  CHECK(printable_text("\xc0\xaf") == "??");  // overlong
  CHECK(printable_text("\xe0\x80\xaf") == "???");
  CHECK(printable_text("\xed\xa0\x80") == "???");       // a surrogate
  CHECK(printable_text("\xf4\x90\x80\x80") == "????");  // beyond U+10FFFF
  CHECK(printable_text("a\xe2\x82") == "a");            // cut at the end
  CHECK(printable_text("\xe2\x82"
                       "a") == "??a");
  CHECK(printable_text(std::string("a\0b", 3)) == "a?b");
  CHECK(printable_text("").empty());
}

TEST_CASE("what the collectors say of themselves, and what they are asked, stand in the header") {
  HandMadeRing ring;
  auto reader = ring.reader();
  CHECK(reader->collector() == agent::CollectorFacts{});
  CHECK_FALSE(reader->device_unseen());
  ring.header().detail = record::kDetailSampled;
  ring.header().cupti_state = record::kCuptiRefused | 3U << 8 | 15U << 16;
  ring.header().budget_ppm = 20'000;
  ring.header().cost_ns = 1'500'000'000;
  ring.header().lost_stamps = 4;
  ring.header().cupti_dropped = 5;
  CHECK(reader->collector() == agent::CollectorFacts{2, record::kCuptiRefused, 0.02, 1.5, 4, 5});
  CHECK(reader->device_unseen());
  ring.header().cupti_state = record::kCuptiRunning;
  CHECK_FALSE(reader->device_unseen());
  reader->ask_full_detail(77);
  CHECK(ring.header().full_detail_until_ns == 77);
}

TEST_CASE("a process that claims more losses than it can have had is given up, and its claim is not counted") {
  HandMadeRing ring;
  const auto reader = ring.reader();
  ring.clock.advance(1s);
  ring.header().dropped.store(8'600'000'000'000'000'000U);
  const auto drain = reader->drain(1, ignore);
  CHECK(drain.broken);
  CHECK(drain.dropped == 0);
  CHECK(reader->finished());
  HandMadeRing slow;
  const auto patient = slow.reader();
  slow.clock.advance(1s);
  slow.header().untracked.store(100'000'000);
  CHECK_FALSE(patient->drain(1, ignore).broken);
  slow.clock.advance(1s);
  slow.header().untracked.store(500'000'000);
  CHECK(patient->drain(1, ignore).broken);
}

TEST_CASE("what a reader has read and not stored when it is lost is counted by the next one") {
  HandMadeRing ring;
  for (int i = 0; i < 5; ++i) ring.publish(i);
  {
    const auto reader = ring.reader();
    CHECK(reader->lost_before() == 0);
    CHECK(payloads(*reader).size() == 5);
    reader->kept();
    for (int i = 0; i < 3; ++i) ring.publish(i);
    CHECK(payloads(*reader).size() == 3);
  }
  CHECK(ring.reader()->lost_before() == 3);
  CHECK(ring.reader()->lost_before() == 0);  // once
  ring.header().kept.store(0);               // a reader of a release that does not say
  CHECK(ring.reader()->lost_before() == 0);
  ring.header().kept.store(1'000);
  CHECK(ring.reader()->lost_before() == 0);
}
