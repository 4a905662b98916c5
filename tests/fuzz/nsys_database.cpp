// An export of Nsight Systems, and the card that is made of it. An input is an SQLite file, or says the rows of one in
// pieces: pages that hold together are rare among mutations.

#include <sqlite3.h>

#include <array>

#include "published/traces/nsys.hpp"
#include "trace_card.hpp"

using namespace trimtab;

namespace {

// With the columns that are read.
struct Table {
  const char* name;
  const char* columns;
  int count;
};
constexpr std::array<Table, 11> kTables{
    {{"StringIds", "id, value", 2},
     {"CUPTI_ACTIVITY_KIND_KERNEL", "start, end, correlationId, deviceId, globalPid, streamId, demangledName", 7},
     {"CUPTI_ACTIVITY_KIND_MEMCPY", "start, end, correlationId, deviceId, globalPid, streamId", 6},
     {"CUPTI_ACTIVITY_KIND_MEMSET", "start, end, correlationId, deviceId, globalPid, streamId", 6},
     {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "start, end, correlationId, deviceId, globalPid, streamId", 6},
     {"CUPTI_ACTIVITY_KIND_RUNTIME", "start, correlationId, globalTid", 3},
     {"NVTX_PAYLOAD_SCHEMAS", "schemaId, payloadSize", 2},
     {"NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId, name, type, offset", 4},
     {"NVTX_EVENTS", "start, end, globalTid, text, textId, binaryData", 6},
     {"TARGET_INFO_GPU", "id, name, totalMemory", 3},
     {"TARGET_INFO_SYSTEM_ENV", "name, value", 2}}};
constexpr std::array<const char*, 8> kTexts{"iteration 1",
                                            "step 2",
                                            "enumerate(DataLoader)",
                                            "ncclAllReduce",
                                            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)",
                                            "Message size [bytes]",
                                            "NCCL communicator ID",
                                            "Hostname"};

class Export {
 public:
  explicit Export(const std::string& path) { require(sqlite3_open(path.c_str(), &database_)); }
  Export(const Export&) = delete;
  Export& operator=(const Export&) = delete;
  ~Export() { sqlite3_close(database_); }

  // The first two bytes say which tables are there, one more before each row whose it is.
  void fill(fuzz::Script& script) {
    constexpr int kMostRows = 400;
    run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN");
    const std::uint64_t there = script.number(2);
    for (std::size_t i = 0; i < kTables.size(); ++i) {
      if ((there >> i & 1U) == 0) continue;
      run(std::string("CREATE TABLE ") + kTables[i].name + " (" + kTables[i].columns + ")");
    }
    for (int rows = 0; !script.ended() && rows < kMostRows; ++rows) {
      const std::size_t table = script.byte() % kTables.size();
      if ((there >> table & 1U) != 0) add_row(kTables[table], script);
    }
    run("COMMIT");
  }

 private:
  static void require(int outcome) {
    TRIMTAB_ASSERT(outcome == SQLITE_OK || outcome == SQLITE_DONE, "a database of our own can be made");
  }
  void run(const std::string& sql) { require(sqlite3_exec(database_, sql.c_str(), nullptr, nullptr, nullptr)); }

  void add_row(const Table& table, fuzz::Script& script) {
    std::string sql = std::string("INSERT INTO ") + table.name + " VALUES (?";
    for (int i = 1; i < table.count; ++i) sql += ", ?";
    sqlite3_stmt* statement = nullptr;
    require(sqlite3_prepare_v2(database_, (sql + ")").c_str(), -1, &statement, nullptr));
    for (int i = 1; i <= table.count; ++i) bind(statement, i, script);
    require(sqlite3_step(statement));
    sqlite3_finalize(statement);
  }

  // SQLite takes a value of any type in any column.
  static void bind(sqlite3_stmt* statement, int place, fuzz::Script& script) {
    const std::uint8_t kind = script.byte() % 8;
    if (kind == 0) return;  // NULL
    if (kind == 1) require(sqlite3_bind_int64(statement, place, static_cast<std::int64_t>(script.number(8))));
    if (kind == 2) require(sqlite3_bind_double(statement, place, static_cast<double>(script.number(4)) / 256));
    if (kind == 3) require(sqlite3_bind_text(statement, place, kTexts[script.byte() % kTexts.size()], -1, nullptr));
    if (kind == 4 || kind == 5) {
      const std::string_view bytes = script.bytes(script.byte());
      const int size = static_cast<int>(bytes.size());
      require(kind == 4 ? sqlite3_bind_text(statement, place, bytes.data(), size, SQLITE_TRANSIENT)
                        : sqlite3_bind_blob(statement, place, bytes.data(), size, SQLITE_TRANSIENT));
    }
    if (kind == 6) require(sqlite3_bind_int64(statement, place, static_cast<std::int64_t>(script.number(3)) << 24U));
    if (kind == 7) require(sqlite3_bind_int64(statement, place, script.byte()));
  }

  sqlite3* database_ = nullptr;
};

void check(const TracedRank& rank) {
  for (const TracedWork& work : rank.work) {
    TRIMTAB_ASSERT(work.begin_ns <= work.end_ns, "work ends when it has begun");
    if (work.collective == 0) continue;
    TRIMTAB_ASSERT(work.collective <= rank.collectives.size() && communicates(work.kind),
                   "a kernel is told a collective that there is");
  }
  for (const TracedStep& step : rank.steps) TRIMTAB_ASSERT(step.begin_ns < step.end_ns, "a step takes time");
  fuzz::check_utf8(rank.node + rank.facts.device_name, "names are valid UTF-8");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::ScratchDirectory directory;
  directory.clear();
  const std::string path = directory.path() + "/trace.sqlite";
  const std::string text = fuzz::text_of(data, size);
  if (text.starts_with("SQLite format 3")) {
    directory.write("trace.sqlite", text);
  } else {
    fuzz::Script script(data, size);
    Export(path).fill(script);
  }
  auto ranks = published::read_nsys(path);
  if (!fuzz::judge(ranks)) return 0;
  TRIMTAB_ASSERT(!ranks->empty(), "an export without a rank is refused");
  coordinator::TraceCard traces;
  for (TracedRank& rank : *ranks) {
    check(rank);
    traces.add(std::move(rank));
  }
  fuzz::check_card(traces);
  return 0;
}
