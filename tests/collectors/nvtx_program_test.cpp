// An unchanged NVTX program with the library injected by NVTX_INJECTION64_PATH.

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "process_rig.hpp"
#include "schema/record.hpp"
#include "skipping.hpp"

#ifdef NVTX_PROGRAM

using namespace rig;
namespace record = trimtab::record;

namespace {

// Runs it to its end and returns what the agent then has.
std::vector<Seen> records_of(const std::string& calls) {
  TemporaryFolder folder;
  Agent agent(folder.file("agent.sock"));
  Program program(NVTX_PROGRAM, {calls},
                  {{"TRIMTAB_SOCKET", folder.file("agent.sock")},
                   {"NVTX_INJECTION64_PATH", INJECT_LIBRARY},
                   {"NVTX_SHIM", NVTX_SHIM}});
  const auto ring = agent.accept();
  CHECK(program.read_line() == "done");
  CHECK(program.wait() == 0);
  auto records = ring->take();
  CHECK(ring->counts.malformed == 0);
  CHECK(ring->counts.dropped + ring->counts.untracked == 0);
  return records;
}

}  // namespace

TEST_CASE("ranges, marks and names without a domain arrive") {
  const auto records = records_of("core");
  CHECK(records.size() == 9);
  CHECK(only(records, "ascii").depth == 0);
  CHECK(only(records, "ascii").domain.empty());
  CHECK(only(records, "ascii").flags == 0);
  CHECK(only(records, "wide \u00e9").depth == 1);
  CHECK(only(records, "with payload").payload == 12);
  CHECK(only(records, "with payload").flags == record::kPayloadValid);
  for (const char* mark : {"mark", "wide mark", "mark ex"}) {
    CHECK(only(records, mark).kind == record::kMark);
    CHECK(only(records, mark).duration_ns == 0);
  }
  CHECK(only(records, "loader").kind == record::kThreadName);
  CHECK(only(records, "loader").thread == 4242);
  CHECK(only(records, "wide started").flags == record::kCrossThread);
  CHECK(only(records, "started ex").kind == record::kRange);
}

TEST_CASE("a range that one thread starts and another ends is one range") {
  const auto records = records_of("cross");
  REQUIRE(records.size() == 1);
  CHECK(records[0].name == "across threads");
  CHECK(records[0].flags == record::kCrossThread);
}

TEST_CASE("domains keep their ranges apart, and registered strings are names") {
  const auto records = records_of("domain");
  CHECK(records.size() == 5);
  const Seen& registered = only(records, "registered");
  CHECK(registered.domain == "one");
  CHECK(registered.payload == -3);
  CHECK(registered.flags == record::kPayloadValid);
  CHECK(only(records, "interleaved").domain == "two");
  CHECK(only(records, "interleaved").flags == 0);
  CHECK(only(records, "domain mark").kind == record::kMark);
  CHECK(only(records, "domain mark").domain == "one");
  CHECK(only(records, "domain started").flags == record::kCrossThread);
  CHECK(only(records, "(unnamed)").domain == "one");
}

TEST_CASE("the client's two ways write the same record") {
  const auto records = records_of("shim");
  REQUIRE(records.size() == 2);
  for (const Seen& seen : records) {
    CHECK(seen.name == "op/a/forward");
    CHECK(seen.domain == "trimtab");
    CHECK(seen.payload == 2);
    CHECK(seen.flags == record::kPayloadValid);
    CHECK(seen.kind == record::kRange);
    CHECK(seen.depth == 0);
  }
  CHECK(records[0].thread == records[1].thread);
}

TEST_CASE("an NVTX program without an agent, or with TRIMTAB=0, runs as ever") {
  TemporaryFolder folder;
  for (const auto& extra : std::vector<std::map<std::string, std::string>>{
           {}, {{"TRIMTAB_SOCKET", folder.file("nobody")}}, {{"TRIMTAB", "0"}, {"TRIMTAB_SOCKET", folder.file("n")}}}) {
    for (const char* calls : {"core", "cross", "domain", "shim"}) {
      std::map<std::string, std::string> environment = extra;
      environment["NVTX_INJECTION64_PATH"] = INJECT_LIBRARY;
      environment["NVTX_SHIM"] = NVTX_SHIM;
      Program program(NVTX_PROGRAM, {calls}, environment);
      CHECK(program.read_line() == "done");
      CHECK(program.wait() == 0);
    }
  }
}

#else

TEST_CASE("NVTX programs [needs:nvtx]") {
  trimtab::test::skip("no NVTX 3 headers were found when this was configured");
}

#endif
