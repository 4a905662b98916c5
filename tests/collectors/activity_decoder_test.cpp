// CUPTI's records into the ring, for three releases' strides, and once more with the real library's iterator.

#include "cupti/activity_decoder.hpp"

#include <unistd.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "activity_rig.hpp"
#include "base/clock.hpp"
#include "records/ring_reader.hpp"
#include "ring_memory.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::inject;
using namespace activity_rig;

namespace {

constexpr Release kReleases[] = {Release::k11_8, Release::k12_0, Release::k13_0};

struct Decoding {
  explicit Decoding(const cupti::Library& with, RingShape shape = {4096, 256})
      : library(with),
        memory(create_ring_memory(shape.bytes())),
        writer(RingWriter::format(memory.address, shape, 1)),
        table(writer.names(), shape.names),
        decoder(library, *names) {
    auto attached = agent::RingReader::attach(dup(memory.descriptor.get()), clock);
    REQUIRE(attached.ok());
    reader = std::move(attached).value();
  }
  cupti::Decoded decode(ActivityBuffer& buffer) {
    return decoder.decode(buffer.data(), buffer.bytes(), {&writer, {&table, 1}});
  }
  // Texts live as long as the reader.
  std::vector<agent::RangeRecord> take() {
    std::vector<agent::RangeRecord> records;
    reader->drain(SIZE_MAX, [&](std::span<const agent::RangeRecord> batch) {
      records.insert(records.end(), batch.begin(), batch.end());
    });
    return records;
  }

  cupti::Library library;
  RingMemory memory;
  RingWriter writer;
  NameTable table;
  std::unique_ptr<cupti::KernelNames> names = std::make_unique<cupti::KernelNames>();
  cupti::ActivityDecoder decoder;
  ManualClock clock;
  std::unique_ptr<agent::RingReader> reader;
};

cupti::MemcpyActivity copy_of(std::uint64_t bytes) {
  cupti::MemcpyActivity activity{};
  activity.kind = cupti::kKindMemcpy;
  activity.copy_kind = 1;
  activity.bytes = bytes;
  activity.start = 10;
  activity.end = 30;
  activity.stream = 9;
  activity.correlation = 5;
  return activity;
}

cupti::OverheadActivity overhead_of(std::uint32_t kind, std::uint64_t ns) {
  cupti::OverheadActivity activity{};
  activity.kind = cupti::kKindOverhead;
  activity.overhead = kind;
  activity.start = 100;
  activity.end = 100 + ns;
  return activity;
}

}  // namespace

TEST_CASE("a kernel's record is what the ring's layout says") {
  for (const Release release : kReleases) {
    Decoding decoding(library_of(release));
    ActivityBuffer buffer(release);
    buffer.add(kernel("gemm", 1000, 1500)).add(copy_of(77)).add(kernel("norm", 2000, 2100));
    const cupti::Decoded decoded = decoding.decode(buffer);
    CHECK(decoded.records == 3);
    CHECK(decoded.kernels == 3);
    CHECK_FALSE(decoded.malformed);
    const auto records = decoding.take();
    REQUIRE(records.size() == 3);
    CHECK(records[0].kind == record::kKernel);
    CHECK(records[0].name == "gemm");
    CHECK(records[0].begin_ns == 1000);
    CHECK(records[0].end_ns == 1500);
    CHECK(records[0].thread == 7);
    CHECK(records[0].depth == 3);
    CHECK(records[0].domain_value == 1U << 20);
    CHECK(records[0].payload == (std::int64_t{1} << 32 | 42));
    CHECK(records[0].detail == std::array<std::uint16_t, 7>{65535, 1, 1024, 1, 1, 0, 0});
    CHECK(records[1].kind == record::kMemcpy);
    CHECK(records[1].payload == 77);
    CHECK(records[2].name == "norm");
  }
}

TEST_CASE("records without usable times are counted and not published") {
  Decoding decoding(library_of(Release::k13_0));
  ActivityBuffer buffer(Release::k13_0);
  buffer.add(kernel("lost", 0, 0))
      .add(kernel("running", 5, 0))
      .add(kernel("backwards", 9, 8))
      .add(kernel("instant", 9, 9));
  const cupti::Decoded decoded = decoding.decode(buffer);
  CHECK(decoded.records == 4);
  CHECK(decoded.lost_stamps == 3);
  const auto records = decoding.take();
  REQUIRE(records.size() == 1);
  CHECK(records[0].name == "instant");
}

TEST_CASE("only CUPTI's own overhead is a cost") {
  Decoding decoding(library_of(Release::k12_0));
  ActivityBuffer buffer(Release::k12_0);
  for (const auto& [kind, ns] :
       {std::pair{cupti::kOverheadBufferFlush, 100U}, {cupti::kOverheadInstrumentation, 20U}}) {
    buffer.add(overhead_of(kind, ns));
  }
  buffer.add(overhead_of(1, 4000)).add(overhead_of(5U << 16, 5000));  // the compiler, lazy loading
  CHECK(decoding.decode(buffer).overhead_ns == 120);
  CHECK(decoding.take().size() == 4);
}

TEST_CASE("what an overhead record owns is freed from 13.0 on, and only there") {
  auto overhead = overhead_of(cupti::kOverheadCommandBufferFull, 1);
  overhead.data = std::malloc(12);
  ActivityBuffer buffer(Release::k13_0);
  buffer.add(overhead);
  CHECK(Decoding(library_of(Release::k13_0)).decode(buffer).records == 1);  // leak and address checks tell
  ActivityBuffer old(Release::k12_0);
  overhead.data = &overhead;
  old.add(overhead);
  CHECK(Decoding(library_of(Release::k12_0)).decode(old).records == 1);
}

namespace {

cupti::ApiActivity call_of(std::uint32_t callback, std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
  return {cupti::kKindRuntime, callback, start, end, 1, 2, correlation, 0};
}

cupti::ExternalCorrelationActivity id_of(std::uint64_t range, std::uint32_t correlation) {
  cupti::ExternalCorrelationActivity id{};
  id.kind = cupti::kKindExternalCorrelation;
  id.external_kind = cupti::kExternalCustom2;
  id.external_id = range;
  id.correlation = correlation;
  return id;
}

}  // namespace

TEST_CASE("what we have not switched on is foreign") {
  const auto push = [](int, std::uint64_t) { return 0; };
  for (const bool correlates : {false, true}) {
    cupti::Library library = library_of(Release::k13_0);
    if (correlates) library.push_external_id = push;
    Decoding decoding(library);
    ActivityBuffer buffer(Release::k13_0);
    cupti::ExternalCorrelationActivity id{};
    id.kind = cupti::kKindExternalCorrelation;
    id.external_kind = cupti::kExternalCustom2;
    id.external_id = 11;
    id.correlation = 42;
    buffer.add(id);
    id.external_kind = 3;
    buffer.add(id);
    buffer.add(call_of(211, 0, 0, 0)).add(call_of(17, 0, 0, 0));
    const cupti::Decoded decoded = decoding.decode(buffer);
    CHECK(decoded.foreign == (correlates ? 2 : 3));
    const auto records = decoding.take();
    REQUIRE(records.size() == 1);
    CHECK(records[0].kind == record::kLaunch);
    CHECK(records[0].payload == 42);
    CHECK(records[0].domain_value == 11);
  }
}

TEST_CASE("a launch says in which range and when, and a wait for the device when") {
  constexpr std::uint32_t kLaunchKernel = 211;
  constexpr std::uint32_t kDeviceSynchronize = 165;
  cupti::Library library = library_of(Release::k13_0);
  library.push_external_id = [](int, std::uint64_t) { return 0; };
  Decoding decoding(library);
  ActivityBuffer buffer(Release::k13_0);
  buffer.add(id_of(11, 42)).add(call_of(kLaunchKernel, 42, 100, 103));  // one record
  buffer.add(call_of(kLaunchKernel, 43, 110, 114));                     // in no range
  buffer.add(id_of(12, 44)).add(call_of(kDeviceSynchronize, 44, 120, 190));
  buffer.add(id_of(13, 45)).add(kernel("k", 105, 109)).add(call_of(kLaunchKernel, 45, 200, 204));  // another thread's
  buffer.add(id_of(14, 46)).add(call_of(kLaunchKernel, 46, 0, 0));
  buffer.add(call_of(kLaunchKernel, 47, 0, 0));  // says nothing
  buffer.add(id_of(15, 48));
  const cupti::Decoded decoded = decoding.decode(buffer);
  CHECK(decoded.foreign == 0);
  CHECK(decoded.lost_stamps == 0);
  const auto records = decoding.take();
  REQUIRE(records.size() == 8);
  const auto is_launch = [&](std::size_t i, std::int64_t correlation, std::uint32_t range, std::uint64_t end_ns) {
    CHECK(records[i].kind == record::kLaunch);
    CHECK(records[i].payload == correlation);
    CHECK(records[i].domain_value == range);
    CHECK(records[i].end_ns == end_ns);
  };
  is_launch(0, 42, 11, 103);
  CHECK(records[0].begin_ns == 100);
  is_launch(1, 43, 0, 114);
  CHECK(records[2].kind == record::kWait);
  CHECK(records[2].domain_value == 44);
  CHECK(records[2].begin_ns == 120);
  CHECK(records[2].end_ns == 190);
  is_launch(3, 45, 13, 0);
  CHECK(records[4].kind == record::kKernel);
  is_launch(5, 45, 0, 204);
  is_launch(6, 46, 14, 0);
  is_launch(7, 48, 15, 0);
}

TEST_CASE("a buffer that breaks off is decoded up to there") {
  Decoding decoding(library_of(Release::k13_0));
  ActivityBuffer buffer(Release::k13_0);
  buffer.add(kernel("one", 1, 2)).add(kernel("two", 3, 4));
  CHECK_FALSE(decoding.decoder.decode(buffer.data(), 216, {&decoding.writer, {&decoding.table, 1}}).malformed);
  CHECK(decoding.decoder.decode(buffer.data(), 300, {&decoding.writer, {&decoding.table, 1}}).malformed);
  CHECK(decoding.take().size() == 2);
  CHECK(decoding.decoder.decode(buffer.data(), 0, {&decoding.writer, {&decoding.table, 1}}).records == 0);
}

TEST_CASE("long names that differ only at their ends stay apart, and one kernel is one name") {
  Decoding decoding(library_of(Release::k13_0));
  const std::string prefix(300, 'k');
  const std::string first = prefix + "ILi1E";
  const std::string second = prefix + "ILi2E";
  const std::string copy = first;
  ActivityBuffer buffer(Release::k13_0);
  for (const std::string* name : {&first, &second, &copy}) buffer.add(kernel(name->c_str(), 1, 2));
  decoding.decode(buffer);
  const auto records = decoding.take();
  REQUIRE(records.size() == 3);
  CHECK(records[0].name != records[1].name);
  CHECK(records[0].name == records[2].name);
  CHECK(records[0].name.size() == record::kNameBytes);
  CHECK(records[0].name.substr(0, 107) == prefix.substr(0, 107));
}

TEST_CASE("a name whose memory another kernel has got later is read anew") {
  Decoding decoding(library_of(Release::k13_0));
  char name[16] = "first";
  ActivityBuffer buffer(Release::k13_0);
  buffer.add(kernel(name, 1, 2));
  decoding.decode(buffer);
  std::strcpy(name, "second");
  decoding.decode(buffer);
  std::strcpy(name, "sec");
  decoding.decode(buffer);
  const auto records = decoding.take();
  REQUIRE(records.size() == 3);
  CHECK(records[0].name == "first");
  CHECK(records[1].name == "second");
  CHECK(records[2].name == "sec");
}

TEST_CASE("more kernels than the name cache and the ring's table hold lose their names, not their records") {
  Decoding decoding(library_of(Release::k13_0), {65536, 256});
  std::vector<std::string> names;
  for (int i = 0; i < 20000; ++i) names.push_back("kernel " + std::to_string(i));
  ActivityBuffer buffer(Release::k13_0);
  for (const std::string& name : names) buffer.add(kernel(name.c_str(), 1, 2));
  decoding.decode(buffer);
  const auto records = decoding.take();
  REQUIRE(records.size() == 20000);
  CHECK(records[0].name == "kernel 0");
  CHECK(records[191].name == "kernel 191");
  CHECK(records[192].name == "(unnamed)");
  CHECK(decoding.writer.header().names_dropped == 20000 - 192);
}

TEST_CASE("buffers of rubbish are survived") {
  std::mt19937 random(20240521);
  INFO("seed 20240521");
  for (int round = 0; round < 200; ++round) {
    ActivityBuffer buffer(Release::k13_0);
    for (int i = 0; i < 50; ++i) {
      auto activity = kernel(nullptr, random(), random());
      for (auto& size : activity.grid) size = static_cast<std::int32_t>(random());
      for (auto& size : activity.block) size = static_cast<std::int32_t>(random());
      buffer.add(activity);
    }
    const std::size_t cut = random() % buffer.bytes();
    Decoding decoding(library_of(Release::k13_0));
    const cupti::Decoded decoded =
        decoding.decoder.decode(buffer.data(), cut, {&decoding.writer, {&decoding.table, 1}});
    CHECK(decoding.take().size() + decoded.lost_stamps == decoded.records);
  }
}

#ifdef REAL_CUPTI
TEST_CASE("the real library's iterator walks buffers made by hand, as our decoder expects") {
  cupti::Library library;
  const cupti::CuptiState state = cupti::load_library(REAL_CUPTI, library);
  REQUIRE(state.running());
  CHECK(library.version >= cupti::kVersion11_8);
  const Release release = library.version >= cupti::kVersion13_0 ? Release::k13_0 : Release::k12_0;
  Decoding decoding(library);
  ActivityBuffer buffer(release);
  cupti::MemsetActivity set{};
  set.kind = cupti::kKindMemset;
  set.start = 5;
  set.end = 6;
  cupti::GraphActivity graph{};
  graph.kind = cupti::kKindGraphTrace;
  graph.start = 7;
  graph.end = 9;
  graph.graph = 12;
  cupti::Memcpy2Activity between{};
  between.kind = cupti::kKindMemcpy2;
  between.bytes = 88;
  between.start = 1;
  between.end = 2;
  cupti::ExternalCorrelationActivity id{};
  id.kind = cupti::kKindExternalCorrelation;
  id.external_kind = cupti::kExternalCustom2;
  id.external_id = 3;
  id.correlation = 42;
  for (int i = 0; i < 10; ++i) {
    buffer.add(kernel("gemm", 1000, 1500)).add(copy_of(77)).add(between).add(set).add(graph).add(id);
    buffer.add(overhead_of(cupti::kOverheadResource, 50));
  }
  const cupti::Decoded decoded = decoding.decode(buffer);
  CHECK(decoded.records == 70);
  CHECK(decoded.kernels == 50);
  CHECK(decoded.overhead_ns == 500);
  CHECK_FALSE(decoded.malformed);
  const auto records = decoding.take();
  REQUIRE(records.size() == 70);
  CHECK(records[63].name == "gemm");
  CHECK(records[67].kind == record::kGraph);
  CHECK(records[67].domain_value == 12);
  CHECK(records[68].kind == record::kLaunch);
  CHECK(records[69].kind == record::kOverhead);
}
#else
TEST_CASE("the real library's iterator [needs:cupti]") {
  trimtab::test::skip("no libcupti was found when this was configured");
}
#endif
