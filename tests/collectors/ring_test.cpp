// Producers and the consumer on one ring. The hostile cases are in tests/agent/records/ring_reader_test.cpp.

#include <unistd.h>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "name_table.hpp"
#include "records/ring_reader.hpp"
#include "ring_memory.hpp"
#include "ring_writer.hpp"

using namespace trimtab;
using namespace trimtab::inject;
using agent::RangeRecord;
using agent::RingReader;

namespace {

struct Ring {
  explicit Ring(RingShape shape)
      : memory(create_ring_memory(shape.bytes())),
        writer(RingWriter::format(memory.address, shape, 1)),
        names(writer.names(), shape.names) {}
  std::unique_ptr<RingReader> reader() {
    auto result = RingReader::attach(dup(memory.descriptor.get()), clock);
    REQUIRE(result.ok());
    return std::move(result).value();
  }
  RingMemory memory;
  RingWriter writer;
  NameTable names;
  ManualClock clock;
};

RecordFields numbered(std::int64_t number, std::uint32_t name) {
  RecordFields fields;
  fields.begin_ns = 1000;
  fields.end_ns = 1000 + static_cast<std::uint64_t>(number);
  fields.payload = number;
  fields.name = name;
  fields.flags = record::kPayloadValid;
  return fields;
}

}  // namespace

TEST_CASE("a record comes out as it went in") {
  Ring ring({256, 64});
  const auto reader = ring.reader();
  RecordFields fields = numbered(5, ring.names.intern("op/a/forward", 12));
  fields.domain = ring.names.intern("trimtab", 7);
  fields.thread = 42;
  fields.depth = 3;
  REQUIRE(ring.writer.publish(fields));
  int seen = 0;
  const auto drain = reader->drain(10, [&](std::span<const RangeRecord> batch) {
    seen += static_cast<int>(batch.size());
    CHECK(batch[0].name == "op/a/forward");
    CHECK(batch[0].domain == "trimtab");
    CHECK(batch[0].payload == 5);
    CHECK(batch[0].duration_ns() == 5);
    CHECK(batch[0].thread == 42);
    CHECK(batch[0].depth == 3);
    CHECK(batch[0].kind == record::kRange);
    CHECK(batch[0].flags == record::kPayloadValid);
  });
  CHECK(seen == 1);
  CHECK(drain.records == 1);
}

TEST_CASE("a full ring drops and counts, and takes records again once it was drained") {
  Ring ring({256, 64});
  const auto reader = ring.reader();
  for (int i = 0; i < 300; ++i) CHECK(ring.writer.publish(numbered(i, 0)) == (i < 256));
  std::int64_t next = 0;
  const auto drain = reader->drain(10000, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) CHECK(record.payload == next++);
  });
  CHECK(drain.records == 256);
  CHECK(drain.dropped == 44);
  CHECK(ring.writer.publish(numbered(7, 0)));
  const auto again = reader->drain(10000, [](std::span<const RangeRecord>) {});
  CHECK(again.records == 1);
  CHECK(again.dropped == 0);
}

TEST_CASE("a run of records is published with one claim, in order, and as far as there is room") {
  Ring ring({256, 64});
  const auto reader = ring.reader();
  RecordFields run[RingWriter::kMaxBatch];
  for (int i = 0; i < 64; ++i) run[i] = numbered(i, 0);
  for (int lap = 0; lap < 100; ++lap) {
    CHECK(ring.writer.publish(run, 0) == 0);
    CHECK(ring.writer.publish(run, 64) == 64);
    CHECK(ring.writer.publish(run, 37) == 37);
    std::int64_t next = 0;
    const auto drain = reader->drain(10000, [&](std::span<const RangeRecord> batch) {
      for (const RangeRecord& record : batch) CHECK(record.payload == next++ % 64);
    });
    CHECK(drain.records == 101);
  }
  for (int i = 0; i < 3; ++i) CHECK(ring.writer.publish(run, 64) == 64);
  CHECK(ring.writer.publish(run, 60) == 60);
  CHECK(ring.writer.publish(run, 64) == 4);
  CHECK(ring.writer.publish(run, 64) == 0);
  const auto drain = reader->drain(10000, [](std::span<const RangeRecord>) {});
  CHECK(drain.records == 256);
  CHECK(drain.dropped == 124);
}

TEST_CASE("names of a full name table are replaced, the records stay") {
  Ring ring({256, 8});
  const auto reader = ring.reader();
  for (int i = 0; i < 10; ++i) {
    const std::string name = "n" + std::to_string(i);
    REQUIRE(ring.writer.publish(numbered(i, ring.names.intern(name.c_str(), name.size()))));
  }
  int unnamed = 0;
  reader->drain(100, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) unnamed += record.name == "(unnamed)" ? 1 : 0;
  });
  CHECK(unnamed == 4);
}

TEST_CASE("every record of many producers arrives once, in its thread's order, or is counted as dropped") {
  constexpr int kThreads = 4;
  constexpr std::int64_t kEach = 50000;
  Ring ring({1024, 64});
  const auto reader = ring.reader();
  std::atomic<int> running{kThreads};
  std::atomic<std::uint64_t> accepted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "thread " + std::to_string(t);
      const std::uint32_t index = ring.names.intern(name.c_str(), name.size());
      std::uint64_t mine = 0;
      RecordFields run[RingWriter::kMaxBatch];
      const std::int64_t length = t % 2 == 0 ? 1 : 16;  // single records and runs
      for (std::int64_t i = 0; i < kEach;) {
        for (std::int64_t k = 0; k < length; ++k) {
          run[k] = numbered(i++, index);
          run[k].thread = static_cast<std::uint32_t>(t);
        }
        mine += length == 1 ? ring.writer.publish(run[0]) ? 1 : 0
                            : ring.writer.publish(run, static_cast<std::uint32_t>(length));
      }
      accepted += mine;
      --running;
    });
  }
  std::vector<std::int64_t> last(kThreads, -1);
  std::uint64_t records = 0;
  std::uint64_t dropped = 0;
  bool ordered = true;
  const auto sink = [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) {
      ordered = ordered && record.payload > last[record.thread] && record.duration_ns() == record.payload &&
                record.name == "thread " + std::to_string(record.thread);
      last[record.thread] = record.payload;
    }
  };
  for (bool more = true; more;) {
    more = running.load() > 0;
    const auto drain = reader->drain(SIZE_MAX, sink);
    records += drain.records;
    dropped += drain.dropped;
    CHECK(drain.skipped + drain.malformed == 0);
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(ordered);
  CHECK(records == accepted);
  CHECK(records + dropped == kThreads * kEach);
  CHECK(records >= 1024);
}

TEST_CASE("a ring is read on by the next reader, without repeats") {
  Ring ring({256, 64});
  {
    const auto first = ring.reader();
    for (int i = 0; i < 10; ++i) ring.writer.publish(numbered(i, 0));
    CHECK(first->drain(100, [](std::span<const RangeRecord>) {}).records == 10);
  }
  for (int i = 10; i < 15; ++i) ring.writer.publish(numbered(i, 0));
  std::vector<std::int64_t> seen;
  ring.reader()->drain(100, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) seen.push_back(record.payload);
  });
  CHECK(seen == std::vector<std::int64_t>{10, 11, 12, 13, 14});
}

TEST_CASE("a reader that was lost within a batch leaves no slot behind") {
  Ring ring({256, 64});
  for (int i = 0; i < 20; ++i) ring.writer.publish(numbered(i, 0));
  ring.reader()->drain(100, [](std::span<const RangeRecord>) {});
  ring.writer.header().tail.store(0);  // as if it had died before it moved the tail
  ring.writer.publish(numbered(20, 0));
  std::vector<std::int64_t> seen;
  const auto drain = ring.reader()->drain(100, [&](std::span<const RangeRecord> batch) {
    for (const RangeRecord& record : batch) seen.push_back(record.payload);
  });
  CHECK(seen == std::vector<std::int64_t>{20});
  CHECK(drain.malformed == 0);
}

TEST_CASE("a producer that wakes up after its slot was given up publishes nothing and breaks nothing") {
  Ring ring({256, 64});
  const auto reader = ring.reader();
  const RingWriter::Claim suspended = ring.writer.claim();
  reader->producer_ended();
  CHECK(reader->drain(100, [](std::span<const RangeRecord>) {}).skipped == 1);
  CHECK_FALSE(RingWriter::commit(suspended, numbered(1, 0)));
  for (int lap = 0; lap < 3; ++lap) {
    for (int i = 0; i < 256; ++i) REQUIRE(ring.writer.publish(numbered(i, 0)));
    CHECK(reader->drain(1000, [](std::span<const RangeRecord>) {}).records == 256);
  }
}

TEST_CASE("a ring that its consumer scribbles over holds no producer up") {
  Ring ring({256, 64});
  ring.writer.header().head.store(~std::uint64_t{0} - 5);
  for (int i = 0; i < 300; ++i) ring.writer.publish(numbered(i, 0));
  ring.writer.header().head.store(0);
  auto* slots = reinterpret_cast<record::RecordSlot*>(ring.writer.names() + 64);
  for (int i = 0; i < 256; ++i) slots[i].sequence.store(1U << 30);
  ring.writer.header().slot_capacity = 0xffffffffU;
  CHECK_FALSE(ring.writer.publish(numbered(1, 0)));
}
