// The plugins in a program that treats them as NCCL does, beside an agent that takes the ring.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "../process_rig.hpp"
#include "schema/nccl_table.hpp"
#include "schema/record.hpp"

using namespace rig;
namespace record = trimtab::record;
namespace nccl = trimtab::nccl;
using trimtab::agent::RangeRecord;

namespace {

struct Job {
  TemporaryFolder folder;
  std::string socket = folder.file("agent.sock");
  std::map<std::string, std::string> environment{{"TRIMTAB_SOCKET", socket},
                                                 {"TRIMTAB_JOB", "gpt"},
                                                 {"TRIMTAB_RANK", "3"},
                                                 {"NCCL_PROFILER_PLUGIN", INJECT_LIBRARY},
                                                 {"NCCL_TUNER_PLUGIN", INJECT_LIBRARY}};

  Program run(std::vector<std::string> arguments) { return {NCCL_HOST, std::move(arguments), environment}; }
};

struct Collective {
  std::string function;
  std::string communicator;
  std::int64_t bytes = 0;
  std::int64_t duration_ns = 0;
  std::uint64_t begin_ns = 0;
  std::uint32_t sequence = 0;
  std::uint16_t kind = 0;
  std::uint16_t channels = 0;
  bool fused = false;
  std::array<std::uint16_t, 7> detail{};
};

// What compares clocks goes into `clocks`, in order.
std::vector<Collective> take(RingConnection& ring, std::vector<Collective>* clocks = nullptr) {
  std::vector<Collective> all;
  ring.reader().drain(1U << 20, [&](std::span<const RangeRecord> records) {
    for (const RangeRecord& one : records) {
      const Collective seen{std::string(one.name),
                            std::string(one.domain),
                            one.payload,
                            one.duration_ns(),
                            one.begin_ns,
                            one.thread,
                            one.kind,
                            one.depth,
                            (one.flags & record::kFused) != 0,
                            one.detail};
      if (one.kind != record::kClock) all.push_back(seen);
      if (one.kind == record::kClock && clocks != nullptr) clocks->push_back(seen);
    }
  });
  std::ranges::sort(all, {}, &Collective::sequence);
  return all;
}

// The rest of what it says.
std::vector<std::string> lines_of(Program& program) {
  std::vector<std::string> lines;
  for (std::string line = program.read_line(); !line.empty(); line = program.read_line()) lines.push_back(line);
  return lines;
}

bool has(const std::vector<std::string>& lines, const std::string& text) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

void expect_quiet_end(Program& program, std::vector<std::string> lines) {
  INFO("after " << lines.size() << " lines, the last: " << (lines.empty() ? "" : lines.back()));
  CHECK(has(lines, "failures 0"));
  CHECK(program.wait() == 0);
}

}  // namespace

TEST_CASE("a collective arrives with all that NCCL said of it, timed from its channels", "[nccl]") {
  for (const char* newest : {"6", "5", "4"}) {
    Job job;
    job.environment["HOST_NEWEST"] = newest;
    Agent agent(job.socket);
    Program program = job.run({"load", "init:1", "mask", "plain:100", "finalize"});
    const auto ring = agent.accept();
    CHECK(program.read_line() == std::string("profiler v") + (*newest == '4' ? "4" : "5") + " Trimtab");
    CHECK(program.read_line() == "mask 70 1");
    expect_quiet_end(program, lines_of(program));
    const auto seen = take(*ring);
    REQUIRE(seen.size() == 100);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      CHECK(seen[i].sequence == i);
      CHECK(seen[i].function == "AllReduce");
      CHECK(seen[i].communicator == "c0ffee0000000001");
      CHECK(seen[i].kind == record::kCollective);
      CHECK(seen[i].bytes == 4096 * 4);
      CHECK(seen[i].channels == 4);
      CHECK(seen[i].duration_ns == 5003);  // from the first channel's start to the last one's stop
      CHECK_FALSE(seen[i].fused);
      CHECK(seen[i].detail == std::array<std::uint16_t, 7>{16, 1, 2, nccl::kRing, nccl::kSimple, 7, 0});
    }
  }
}

TEST_CASE("the GPU's clock is told beside the host's, before the first collective and about once a second", "[nccl]") {
  Job job;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  };
  const std::uint64_t begin = now();
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "plain:100", "finalize"});
  const auto ring = agent.accept();
  expect_quiet_end(program, lines_of(program));
  std::vector<Collective> clocks;
  const auto seen = take(*ring, &clocks);
  const std::uint64_t seconds = 1 + (now() - begin) / 1'000'000'000;
  REQUIRE(clocks.size() >= 2);
  CHECK(clocks.size() <= 2 * (1 + seconds));
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    CHECK(clocks[i].communicator == "c0ffee0000000001");
    CHECK(clocks[i].detail[0] == (i % 2 == 0 ? record::kReadAfter : record::kReadBefore));
    // The host's reading, from the stamp and what the stamp is ahead of it.
    const std::uint64_t host_ns = clocks[i].begin_ns - static_cast<std::uint64_t>(clocks[i].bytes);
    CHECK(host_ns >= begin);
    CHECK(host_ns <= now());
  }
  CHECK(clocks[1].begin_ns == seen.front().begin_ns);  // asked for, then begun
}

TEST_CASE("works of one batch are marked, for their stamps are one another's", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "fused:20", "plain:1", "finalize"});
  const auto ring = agent.accept();
  expect_quiet_end(program, lines_of(program));
  const auto seen = take(*ring);
  REQUIRE(seen.size() == 61);
  // The first of a batch may be over before the second begins; the agent knows it by its stamps.
  CHECK(std::ranges::count(seen, true, &Collective::fused) >= 40);
  CHECK_FALSE(seen.back().fused);
}

TEST_CASE("sends and receives are told apart from collectives", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "p2p:5", "finalize"});
  const auto ring = agent.accept();
  expect_quiet_end(program, lines_of(program));
  const auto seen = take(*ring);
  REQUIRE(seen.size() == 5);
  for (const Collective& one : seen) {
    CHECK(one.kind == record::kP2p);
    CHECK(one.function == "Send");
    CHECK(one.sequence == 3);  // the peer
    CHECK(one.bytes == 2000);
    CHECK(one.detail[3] == nccl::kUnknown);
  }
}

TEST_CASE("a captured graph's replays and eight threads lose nothing", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "capture:500", "threads:100", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  expect_quiet_end(program, lines);
  CHECK(take(*ring).size() == 1300);
  CHECK(
      has(lines, "1300 timed, 0 without a free slot, 0 unfinished, 0 with unsound stamps, 0 without channels; 0 late"));
}

TEST_CASE("stamps that run backwards, or never come, are counted and not believed", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "plain:1", "backwards:10", "silent:7", "nochannels:3", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  expect_quiet_end(program, lines);
  CHECK(take(*ring).size() == 1);
  CHECK(has(lines, "1 timed, 0 without a free slot, 0 unfinished, 10 with unsound stamps, 3 without channels; 0 late"));
}

TEST_CASE("collectives without an end fill the pool; what finds no room is counted, and nobody waits", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "silent:2048", "plain:50", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  expect_quiet_end(program, lines);
  CHECK(take(*ring).empty());
  CHECK(has(lines, "0 timed, 50 without a free slot"));
}

TEST_CASE("strays, doubles and late events change nothing", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "strays", "plain:5", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  CHECK_FALSE(has(lines, "a handle"));
  expect_quiet_end(program, lines);
  CHECK(take(*ring).size() == 6);  // one of the strays' was sound
}

TEST_CASE("more communicators than there is room for do without", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "inits:513", "plain:5", "finalize", "init:2", "plain:5", "finalize"});
  const auto ring = agent.accept();
  expect_quiet_end(program, lines_of(program));
  const auto seen = take(*ring);
  REQUIRE(seen.size() == 5);
  CHECK(seen.front().communicator == "c0ffee0000000002");
}

TEST_CASE("a forked child disturbs nothing of its parent's", "[nccl]") {
  Job job;
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "plain:5", "fork:20", "plain:5", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  CHECK(has(lines, "child 0"));
  CHECK(has(lines, "failures 0"));
  program.wait();
  CHECK(take(*ring).size() == 10);
}

TEST_CASE("with everything switched off, without an agent's address, or at detail off, NCCL is asked for nothing",
          "[nccl]") {
  const std::vector<std::pair<std::string, std::string>> settings{
      {"TRIMTAB", "0"}, {"TRIMTAB_SOCKET", ""}, {"TRIMTAB_NCCL_DETAIL", "off"}};
  for (const auto& [name, value] : settings) {
    Job job;
    job.environment[name] = value;
    Agent agent(job.socket);
    Program program = job.run({"load", "init:1", "mask", "plain:5", "finalize"});
    const auto lines = lines_of(program);
    CHECK(has(lines, "mask 0 1"));
    expect_quiet_end(program, lines);
    CHECK_FALSE(agent.somebody_waits());
  }
}

TEST_CASE("where CUPTI is off, what the events cost is told while the program runs", "[nccl]") {
  Job job;
  job.environment["TRIMTAB_FLUSH_MS"] = "10";
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "plain:200", "wait:costs", "finalize"});
  const auto ring = agent.accept();
  for (int tries = 0; ring->header().cost_ns == 0; ++tries) {
    REQUIRE(tries < 10000);
    pause_a_little();
  }
  CHECK(ring->header().budget_ppm == 5000);
  CHECK(ring->header().detail == record::kDetailCollectives);
  program.write_line();
  expect_quiet_end(program, lines_of(program));
}

TEST_CASE("without an agent there, events cost nothing and nothing is kept", "[nccl]") {
  Job job;
  Program program = job.run({"load", "init:1", "plain:200", "finalize"});
  const auto lines = lines_of(program);
  CHECK(has(lines, "0 timed"));
  expect_quiet_end(program, lines);
}

TEST_CASE("the plugin is found by path, by file name and by suffix, and is one library with the other", "[nccl]") {
  const std::string library = INJECT_LIBRARY;
  const std::string folder = library.substr(0, library.rfind('/'));
  for (const std::string& name :
       {folder + "/libnccl-profiler-trimtab.so", std::string("libnccl-profiler-trimtab.so"), std::string("trimtab")}) {
    Job job;
    job.environment["NCCL_PROFILER_PLUGIN"] = name;
    job.environment["LD_LIBRARY_PATH"] = folder;
    Agent agent(job.socket);
    Program program = job.run({"load", "init:1", "plain:1", "tuner:16/2", "choose:4/1000", "finalize"});
    const auto ring = agent.accept();
    const auto lines = lines_of(program);
    CHECK(has(lines, "profiler v5"));
    CHECK(has(lines, "tuner v5"));
    expect_quiet_end(program, lines);
    CHECK(take(*ring).size() == 1);
    CHECK_FALSE(agent.somebody_waits());  // one library, so one ring
  }
}

TEST_CASE("an NCCL that is older than both versions goes without", "[nccl]") {
  Job job;
  job.environment["HOST_NEWEST"] = "3";
  Program program = job.run({"load"});
  CHECK(program.read_line() == "no profiler");
  CHECK(program.wait() == 0);
}

TEST_CASE("a second profiler plugin gets its own events, handles and contexts", "[nccl]") {
  for (const char* version : {"5", "4"}) {
    Job job;
    const bool newer = *version == '5';
    job.environment["HOST_NEWEST"] = version;
    job.environment["TRIMTAB_NCCL_PROFILER_NEXT"] = newer ? NEXT_PLUGIN_V5 : NEXT_PLUGIN_V4;
    job.environment["NEXT_MASK"] = "66";  // collectives and channels
    Agent agent(job.socket);
    Program program = job.run({"load", "init:1", "mask", "plain:50", "p2p:2", "finalize"});
    const auto ring = agent.accept();
    const auto lines = lines_of(program);
    CHECK(has(lines, "mask 70 1"));
    const std::string groups = newer ? "groupapi 52 collapi 50" : "groupapi 0 collapi 0";
    CHECK(has(lines, "next: group 52 coll 50 p2p 2 kernel 204 " + groups));
    CHECK(has(lines, "stamps 204 wrong 0"));
    expect_quiet_end(program, lines);
    CHECK(take(*ring).size() == 52);
  }
}

TEST_CASE("a second plugin is served even where we are switched off", "[nccl]") {
  Job job;
  job.environment["TRIMTAB"] = "0";
  job.environment["TRIMTAB_NCCL_PROFILER_NEXT"] = NEXT_PLUGIN_V5;
  job.environment["NEXT_MASK"] = "2";
  Program program = job.run({"load", "init:1", "mask", "plain:5", "finalize"});
  const auto lines = lines_of(program);
  CHECK(has(lines, "mask 2 1"));
  CHECK(has(lines, "coll 5 p2p 0 kernel 0"));
  expect_quiet_end(program, lines);
}

TEST_CASE("a second plugin that cannot be used is named in NCCL's log, and ours goes on", "[nccl]") {
  const std::vector<std::pair<std::string, std::string>> wrong{{"/nowhere/plugin.so", "cannot be opened"},
                                                               {NEXT_PLUGIN_V4, "offers no ncclProfiler_v5"},
                                                               {INJECT_LIBRARY, "is Trimtab itself"}};
  for (const auto& [name, why] : wrong) {
    Job job;
    job.environment["TRIMTAB_NCCL_PROFILER_NEXT"] = name;
    Agent agent(job.socket);
    Program program = job.run({"load", "init:1", "plain:5", "finalize"});
    const auto ring = agent.accept();
    const auto lines = lines_of(program);
    CHECK(has(lines, "log 2 trimtab: TRIMTAB_NCCL_PROFILER_NEXT names " + name + ", which " + why));
    expect_quiet_end(program, lines);
    CHECK(take(*ring).size() == 5);
  }
}

TEST_CASE("a second plugin whose init fails does not fail the communicator", "[nccl]") {
  Job job;
  job.environment["TRIMTAB_NCCL_PROFILER_NEXT"] = NEXT_PLUGIN_V5;
  job.environment["NEXT_FAIL"] = "1";
  Agent agent(job.socket);
  Program program = job.run({"load", "init:1", "plain:5", "finalize"});
  const auto ring = agent.accept();
  const auto lines = lines_of(program);
  CHECK(has(lines, "failed in init with 3"));
  CHECK_FALSE(has(lines, "next:"));
  expect_quiet_end(program, lines);
  CHECK(take(*ring).size() == 5);
}

// --- the tuner ---

namespace {

std::string table_file(const Job& job, std::vector<nccl::TableEntry> entries, std::string& id) {
  nccl::TableHeader header{nccl::kTableMagic,
                           nccl::kTableVersion,
                           sizeof(nccl::TableHeader),
                           sizeof(nccl::TableEntry),
                           static_cast<std::uint32_t>(entries.size()),
                           7,
                           0};
  std::string bytes(sizeof(header) + entries.size() * sizeof(nccl::TableEntry), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), entries.data(), entries.size() * sizeof(nccl::TableEntry));
  header.id = nccl::table_id(bytes.data(), bytes.size());
  std::memcpy(bytes.data(), &header, sizeof(header));
  char text[32];
  std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(header.id));
  id = text;
  std::ofstream(job.folder.file("table"), std::ios::binary) << bytes;
  return job.folder.file("table");
}

nccl::TableEntry entry(std::uint64_t from, std::uint64_t to, nccl::Algorithm algorithm, nccl::Protocol protocol,
                       std::uint8_t channels) {
  return {from, to, 16, 1, nccl::kAllReduce, algorithm, protocol, channels, 0};
}

}  // namespace

TEST_CASE("the tuner follows the launch's table, and leaves the rest to NCCL", "[nccl]") {
  for (const char* newest : {"6", "4"}) {
    Job job;
    job.environment["HOST_NEWEST"] = newest;
    job.environment["TRIMTAB_NCCL_TABLE"] =
        table_file(job,
                   {entry(0, 999, nccl::kTree, nccl::kLl128, 0), entry(1000, 1000, nccl::kNvls, nccl::kSimple, 8),
                    entry(2000, 9999, nccl::kRing, nccl::kLl128, 4)},
                   job.environment["TRIMTAB_NCCL_TABLE_ID"]);
    Program program =
        job.run({"tuner:16/2", "choose:4/999", "choose:4/1000", "choose:4/1001", "choose:4/2000", "choose:2/999",
                 "choose:4/10000", "choose:7/999", "choose:-1/5", "tuner:8/2", "choose:4/999", "end_tuner"});
    CHECK(program.read_line() ==
          std::string("log 3 trimtab: table ") + job.environment["TRIMTAB_NCCL_TABLE_ID"] + " of launch 7, 3 choices");
    CHECK(program.read_line() == std::string("tuner v") + (*newest == '4' ? "4" : "5") + " Trimtab");
    CHECK(program.read_line() == "chosen 0/1 channels 0 cost 0");
    CHECK(program.read_line() == "chosen 4/2 channels 8 cost 0");
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // between two entries
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // ring, LL128 is not available here
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // another function
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // beyond the last entry
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // receives are not tuned
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");
    CHECK(program.read_line() == std::string("tuner v") + (*newest == '4' ? "4" : "5") + " Trimtab");
    CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");  // a communicator of another size
    expect_quiet_end(program, lines_of(program));
  }
}

TEST_CASE("a table that is missing, damaged or another launch's changes nothing and is named once", "[nccl]") {
  const auto refused = [](Job& job, const std::string& why) {
    Program program = job.run({"tuner:16/2", "choose:4/100", "tuner:16/2", "choose:4/100", "end_tuner"});
    const auto lines = lines_of(program);
    INFO(why);
    CHECK(has(lines, "log 2 trimtab: the table of NCCL choices"));
    CHECK(has(lines, why));
    CHECK(std::ranges::count_if(lines, [](const std::string& line) { return line.starts_with("log"); }) == 1);
    CHECK(std::ranges::count(lines, "chosen 0/0 channels 0 cost 10") == 2);
    expect_quiet_end(program, lines);
  };
  Job job;
  auto& environment = job.environment;
  environment["TRIMTAB_NCCL_TABLE"] = job.folder.file("nowhere");
  refused(job, "does not say which one it must be");
  environment["TRIMTAB_NCCL_TABLE_ID"] = "1";
  refused(job, "cannot be opened");
  std::string id;
  const std::string path = table_file(job, {entry(0, 999, nccl::kTree, nccl::kLl128, 0)}, id);
  environment["TRIMTAB_NCCL_TABLE"] = path;
  refused(job, "is not the table of this launch");
  environment["TRIMTAB_NCCL_TABLE_ID"] = id;
  std::filesystem::resize_file(path, 71);
  refused(job, "its size is not what its header says");
  std::ofstream(path, std::ios::app) << 'x';
  refused(job, "its contents do not match its checksum");
  std::ofstream(path) << "something else, which is longer than a header of forty bytes";
  refused(job, "it is no such table");
  environment["TRIMTAB_NCCL_TABLE"] = job.folder.file("");
  refused(job, "it is no file");
}

TEST_CASE("TRIMTAB=0 leaves NCCL its own choices, without a word", "[nccl]") {
  Job job;
  job.environment["TRIMTAB_NCCL_TABLE"] =
      table_file(job, {entry(0, 999, nccl::kTree, nccl::kLl128, 0)}, job.environment["TRIMTAB_NCCL_TABLE_ID"]);
  job.environment["TRIMTAB"] = "0";
  Program program = job.run({"tuner:16/2", "choose:4/100"});
  CHECK(program.read_line() == "tuner v5 Trimtab");
  CHECK(program.read_line() == "chosen 0/0 channels 0 cost 10");
  expect_quiet_end(program, lines_of(program));
}

#ifdef REAL_NCCL
TEST_CASE("the NCCL that is installed looks for what we export and uses the names that we know", "[nccl]") {
  std::ifstream file(REAL_NCCL, std::ios::binary);
  const std::string library((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  REQUIRE(library.size() > 1000);
  const auto names = [&](const std::string& text) { return library.find(text + '\0') != std::string::npos; };
  CHECK((names("ncclProfiler_v5") || names("ncclProfiler_v4")));
  CHECK((names("ncclTunerPlugin_v5") || names("ncclTunerPlugin_v4")));
  CHECK(names("libnccl-profiler"));
  CHECK(names("libnccl-tuner"));
  for (const nccl::Name& name : nccl::kAlgorithms) CHECK(names(name.theirs));
  for (const nccl::Name& name : nccl::kProtocols) CHECK(names(name.theirs));
  for (const nccl::Name& name : nccl::kFunctions) CHECK(names(name.theirs));
  for (const nccl::Name& name : nccl::kDatatypes) {
    if (!nccl::same_text(name.ours, "uint8")) CHECK(names(name.theirs));  // NCCL has no name for it
  }
}
#endif
