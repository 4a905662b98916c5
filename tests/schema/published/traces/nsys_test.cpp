// Nsight Systems' exports, with those of their tables and columns that are read.

#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "../../sample_costs.hpp"
#include "published/traces/step_ranges.hpp"
#include "read_all.hpp"
#include "schema/published.hpp"

using namespace trimtab;
using namespace trimtab::test;

namespace {

// Two processes, as nsys numbers them: 0x1000000 and 0x2000000, on devices 1 and 0.
constexpr const char* kTables = R"(
CREATE TABLE StringIds (id INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'), (3, 'iteration 2');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (1000, 3000, 1, 7, 11, 0x1000000, 1, 1), (3000, 4000, 1, 9, 12, 0x1000000, 2, 2), (1500, 2500, 0, 7, 11, 0x2000000, 1, 1);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (4000, 4500, 1, 7, 13, 0x1000000, 64);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (900, 950, 0x1000005, 11), (960, 980, 0x1000005, 12), (990, 999, 0x1000005, 13), (1400, 1450, 0x2000005, 11);
INSERT INTO NVTX_EVENTS VALUES
  (800, 4800, 0x1000005, 'iteration 1', NULL), (4800, 9000, 0x1000005, NULL, 3), (850, 890, 0x1000005, 'forward', NULL),
  (805, 845, 0x1000005, 'enumerate(DataLoader)', NULL), (870, NULL, 0x1000005, 'iteration 9', NULL);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100', 42949672960), (1, 'NVIDIA H100', 85899345920);
)";

std::string database(const TemporaryDirectory& folder, const std::string& statements) {
  const std::string path = folder.file("trace.sqlite");
  sqlite3* handle = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &handle) == SQLITE_OK);
  char* failure = nullptr;
  sqlite3_exec(handle, statements.c_str(), nullptr, nullptr, &failure);
  INFO((failure == nullptr ? "" : failure));
  REQUIRE(failure == nullptr);
  sqlite3_close(handle);
  return path;
}

}  // namespace

TEST_CASE("an export of Nsight Systems gives a rank for each process with a device, by device") {
  const TemporaryDirectory folder;
  const auto ranks = read_all({database(folder, kTables)});
  INFO((ranks ? "" : ranks.error().message));
  REQUIRE(ranks.ok());
  REQUIRE(ranks->size() == 2);
  CHECK(ranks->at(0).facts.device_name == "NVIDIA A100");
  CHECK(ranks->at(0).work.size() == 1);
  CHECK(ranks->at(0).steps.empty());
  const TracedRank& second = ranks->at(1);
  CHECK(second.profiler == Profiler::kNsight);
  CHECK_FALSE(second.rank.has_value());
  CHECK(second.facts.device_name == "NVIDIA H100");
  REQUIRE(second.work.size() == 3);
  CHECK(second.work[0].kind == TracedKind::kComputation);
  CHECK(second.work[0].launched_ns == 100);  // counted from the first step
  CHECK(second.work[1].kind == TracedKind::kAllReduce);
  CHECK(second.work[2].kind == TracedKind::kCopy);
  REQUIRE(second.steps.size() == 2);
  CHECK(second.steps[1].number == 2);
  CHECK(second.steps[1].begin_ns == 4000);
  CHECK(second.data.size() == 1);
}

TEST_CASE("an SQLite file without kernels is called by its look") {
  const TemporaryDirectory folder;
  const auto costs = read_all({database(folder, "CREATE TABLE costs (id INTEGER);")});
  CHECK(costs.error().message.find("another program's SQLite database (tables: \"costs\")") != std::string::npos);
  const TemporaryDirectory other;
  const auto bare = read_all({database(other, "CREATE TABLE StringIds (id INTEGER, value TEXT);")});
  CHECK(bare.error().message.find("nsys profile --trace=cuda,nvtx") != std::string::npos);
}

TEST_CASE("ranges that name a step are steps, others are not") {
  published::StepRanges ranges;
  CHECK(ranges.add("Step: 3", 0, 10));
  CHECK(ranges.add("step_4", 10, 20));
  CHECK(ranges.add("iteration[1]", 0, 20));
  CHECK_FALSE(ranges.add("step 4 forward", 0, 10));
  CHECK_FALSE(ranges.add("optimizer", 0, 10));
  CHECK_FALSE(ranges.add("step 99999999999999999999", 0, 10));
  CHECK_FALSE(ranges.add("step 1", 10, 10));
  const std::vector<TracedStep> steps = ranges.steps();
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].number == 3);
  published::StepRanges counted;
  for (int i = 0; i < 3; ++i) CHECK(counted.add("train_step", 10 * i, 10 * i + 9));
  REQUIRE(counted.steps().size() == 3);
  CHECK(counted.steps()[2].number == 2);
  CHECK(published::StepRanges().steps().empty());
}

namespace {

// A payload as Nsight stores it: a header of 32 bytes, then the communicator's number and the bytes of a call.
std::string payload(std::uint32_t schema, std::uint64_t communicator, std::uint64_t bytes, std::uint64_t all = 48) {
  const auto little = [](std::uint64_t number, int count) {
    std::string text;
    constexpr const char* kDigits = "0123456789abcdef";
    for (int i = 0; i < count; ++i, number >>= 8U) text += {kDigits[number >> 4U & 15U], kDigits[number & 15U]};
    return text;
  };
  return "x'" + little(1, 8) + little(schema, 8) + little(16, 8) + little(all, 8) + little(communicator, 8) +
         little(bytes, 8) + "'";
}

// Two processes that reduce 1 MiB: the second comes 700 ns late. Their communicator was made in the recording.
std::string nccl_tables(const std::string& first_payload) {
  return R"(
CREATE TABLE StringIds (id INTEGER, value TEXT);
INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'), (3, 'ncclAllReduce');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
  correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT, textId INTEGER, binaryData BLOB);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, totalMemory INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId INTEGER, schemaId INTEGER, payloadSize INTEGER);
CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId INTEGER, schemaId INTEGER, idx INTEGER, type INTEGER, name TEXT,
  offset INTEGER);
INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, 7, 16), (1, 8, 16);
INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 7, 0, 18, 'NCCL communicator ID', NULL),
  (1, 7, 1, 22, 'Message size [bytes]', 8), (1, 8, 0, 18, 'NCCL communicator ID', NULL), (1, 8, 1, 5, 'No. of ranks', 8);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100', 85899345920), (1, 'NVIDIA H100', 85899345920);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 3000, 0, 9, 11, 0x1000000, 2, 2), (2700, 3000, 1, 9, 11, 0x2000000, 2, 2);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1060, 1070, 0x1000005, 11), (1720, 1730, 0x2000005, 11);
INSERT INTO NVTX_EVENTS VALUES
  (10, 90, 0x1000005, 'ncclCommInitRank', NULL, )" +
         payload(8, 99, 2) + R"(), (10, 90, 0x2000005, 'ncclCommInitRank', NULL, )" + payload(8, 99, 2) + R"(),
  (1000, 1010, 0x1000005, 'ncclGroupStart', NULL, NULL), (1020, 1030, 0x1000005, NULL, 3, )" +
         first_payload + R"(), (1050, 1080, 0x1000005, 'ncclGroupEnd', NULL, NULL),
  (1700, 1780, 0x2000005, NULL, 3, )" +
         payload(7, 99, 1048576) + ");";
}

}  // namespace

TEST_CASE("NCCL's own ranges say which kernel was of which call, of how many bytes over how many ranks") {
  const TemporaryDirectory folder;
  const auto costs = read_published("traces", {database(folder, nccl_tables(payload(7, 99, 1048576)))});
  INFO((costs.ok() ? "" : costs.error().message));
  REQUIRE(costs.ok());
  REQUIRE(costs->costs.size() == 1);
  const PublishedCosts& profile = costs->costs.front();
  CHECK(profile.source == "import:nsight-systems alone ranks-clock");
  REQUIRE(profile.costs.size() == 1);
  CHECK(describe(profile.costs[0].key) == "collective all_reduce bytes=1048576 group_size=2 intra_node");
  CHECK(profile.costs[0].statistics.max() == 300);
}

TEST_CASE("a payload of another form tells no size, and two calls of one group none of either") {
  const TemporaryDirectory folder;
  const auto other = read_published("traces", {database(folder, nccl_tables(payload(7, 99, 1048576, 47)))});
  REQUIRE_FALSE(other.ok());  // the other rank's alone is left: nobody says where its fellow is
  CHECK(other.error().message.find(
            "1 time of collectives would be of an unknown link; give the exports of all ranks") != std::string::npos);
  const TemporaryDirectory second;
  const std::string grouped = nccl_tables(payload(7, 99, 1048576)) +
                              "INSERT INTO NVTX_EVENTS VALUES (1035, 1040, 0x1000005, NULL, 3, " +
                              payload(7, 99, 4096) + ");";
  const auto several = read_published("traces", {database(second, grouped)});
  CHECK_FALSE(several.ok());
}
