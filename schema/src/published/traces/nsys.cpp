#include "published/traces/nsys.hpp"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Exception.h>
#include <SQLiteCpp/Statement.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text_parts.hpp"
#include "documents/json_document.hpp"
#include "published/traces/chrome_events.hpp"
#include "published/traces/collectives.hpp"
#include "published/traces/launches.hpp"
#include "published/traces/looks.hpp"
#include "published/traces/nccl_calls.hpp"
#include "published/traces/step_ranges.hpp"
#include "schema/traces/collective_kernel.hpp"

namespace trimtab::published {

namespace {

constexpr std::size_t kMostRanks = 1024;
// A thread's global number holds its process's in the upper bits.
constexpr std::int64_t kOfProcess = ~std::int64_t{0xffffff};

struct Process {
  TracedRank rank;
  Launches launches;
  StepRanges steps;
  NcclCalls calls;
  std::int64_t device = 0;  // of its first kernel
};

class Reader {
 public:
  Reader(SQLite::Database& database, const std::string& path) : database_(database), path_(path) {}

  Result<std::vector<TracedRank>> read() {
    if (!has_any({"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"})) {
      return no_profile();
    }
    read_names();
    TRIMTAB_TRY_STATUS(read_kernels());
    TRIMTAB_TRY_STATUS(read_copies("CUPTI_ACTIVITY_KIND_MEMCPY"));
    TRIMTAB_TRY_STATUS(read_copies("CUPTI_ACTIVITY_KIND_MEMSET"));
    TRIMTAB_TRY_STATUS(read_graphs());
    TRIMTAB_TRY_STATUS(read_calls());
    TRIMTAB_TRY_STATUS(read_ranges());
    return ranks();
  }

 private:
  // Rows of `columns` of a table; none where the table or one of them is missing.
  Status rows(const std::string& table, const std::vector<std::string>& columns,
              const std::function<Status(SQLite::Statement&)>& take) {
    if (!has(table, columns)) return {};
    SQLite::Statement statement(database_, "SELECT " + joined(columns, ", ", quoted) + " FROM " + quoted(table));
    while (statement.executeStep()) TRIMTAB_TRY_STATUS(take(statement));
    return {};
  }
  static std::string quoted(const std::string& name) { return '"' + name + '"'; }

  bool has(const std::string& table, const std::vector<std::string>& columns) {
    if (!database_.tableExists(table)) return false;
    std::set<std::string> there;
    SQLite::Statement statement(database_, "PRAGMA table_info(" + quoted(table) + ")");
    while (statement.executeStep()) there.insert(statement.getColumn(1).getString());
    return std::ranges::all_of(columns, [&there](const std::string& one) { return there.contains(one); });
  }
  bool has_any(const std::vector<std::string>& tables) {
    return std::ranges::any_of(tables, [this](const std::string& table) { return database_.tableExists(table); });
  }

  // Which texts are NCCL's kernels, a step's or a loader's is asked for each name once.
  void read_names() {
    (void)rows("StringIds", {"id", "value"}, [this](SQLite::Statement& row) -> Status {
      const std::string name = row.getColumn(1).getString();
      const std::int64_t id = row.getColumn(0).getInt64();
      if (const auto collective = collective_kernel(name)) {
        kinds_[id] = communication_named(collective->primitive);
      }
      constexpr std::size_t kLongestRange = 64;
      if (name.size() <= kLongestRange) names_[id] = name;
      return {};
    });
  }

  Status add(SQLite::Statement& row, TracedKind kind) {
    const std::int64_t begin_ns = row.getColumn(0).getInt64();
    const std::int64_t end_ns = row.getColumn(1).getInt64();
    if (begin_ns < -kLatestNs || end_ns > kLatestNs || end_ns < begin_ns) return {};
    const std::int64_t process = row.getColumn(4).getInt64() & kOfProcess;
    if (!processes_.contains(process) && processes_.size() >= kMostRanks) {
      return bad_input("holds more than " + std::to_string(kMostRanks) + " processes with a device");
    }
    Process& one = processes_[process];
    if (one.rank.work.empty()) one.device = row.getColumn(3).getInt64();
    if (++pieces_ > kMostWork) {
      return bad_input("holds more than " + std::to_string(kMostWork / 1'000'000) +
                       " million kernels; export fewer seconds (nsys profile --duration)");
    }
    one.rank.work.push_back({begin_ns, end_ns, TracedWork::kNotTold, kind});
    one.launches.worked(row.getColumn(2).getInt64(), row.getColumn(5).getInt64());
    return {};
  }

  Status read_kernels() {
    return rows("CUPTI_ACTIVITY_KIND_KERNEL",
                {"start", "end", "correlationId", "deviceId", "globalPid", "streamId", "demangledName"},
                [this](SQLite::Statement& row) {
                  const auto found = kinds_.find(row.getColumn(6).getInt64());
                  return add(row, found == kinds_.end() ? TracedKind::kComputation : found->second);
                });
  }
  Status read_copies(const std::string& table) {
    return rows(table, {"start", "end", "correlationId", "deviceId", "globalPid", "streamId"},
                [this](SQLite::Statement& row) { return add(row, TracedKind::kCopy); });
  }
  // With --cuda-graph-trace=graph a CUDA graph is one piece.
  Status read_graphs() {
    return rows("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                {"start", "end", "correlationId", "deviceId", "globalPid", "streamId"}, [this](SQLite::Statement& row) {
                  graphs_ = true;
                  return add(row, TracedKind::kComputation);
                });
  }
  Status read_calls() {
    return rows("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "correlationId", "globalTid"},
                [this](SQLite::Statement& row) -> Status {
                  const auto process = processes_.find(row.getColumn(2).getInt64() & kOfProcess);
                  const std::int64_t begin_ns = row.getColumn(0).getInt64();
                  if (process == processes_.end() || begin_ns < -kLatestNs || begin_ns > kLatestNs) return {};
                  if (++pieces_ > 2 * kMostWork) return bad_input("holds too many calls of CUDA's runtime");
                  process->second.launches.called(row.getColumn(1).getInt64(), begin_ns);
                  return {};
                });
  }
  // How NCCL's payloads are laid out. An offset of 0 may be missing.
  void read_payloads() {
    (void)rows("NVTX_PAYLOAD_SCHEMAS", {"schemaId", "payloadSize"}, [this](SQLite::Statement& row) -> Status {
      payloads_.add_schema(row.getColumn(0).getInt64(), row.getColumn(1).getInt64());
      return {};
    });
    (void)rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", {"schemaId", "name", "type", "offset"},
               [this](SQLite::Statement& row) -> Status {
                 payloads_.add_entry(row.getColumn(0).getInt64(), row.getColumn(1).getString(),
                                     row.getColumn(2).getInt64(), row.getColumn(3).getInt64());
                 return {};
               });
  }
  Status read_ranges() {
    read_payloads();
    std::vector<std::string> columns{"start", "end", "globalTid", "text", "textId"};
    has_payloads_ = has("NVTX_EVENTS", {"binaryData"});
    if (has_payloads_) columns.emplace_back("binaryData");
    return rows("NVTX_EVENTS", columns, [this](SQLite::Statement& row) -> Status {
      if (row.getColumn(1).isNull()) return {};  // a mark
      const auto process = processes_.find(row.getColumn(2).getInt64() & kOfProcess);
      if (process == processes_.end()) return {};
      const std::int64_t begin_ns = row.getColumn(0).getInt64();
      const std::int64_t end_ns = row.getColumn(1).getInt64();
      if (begin_ns < -kLatestNs || end_ns > kLatestNs || end_ns < begin_ns) return {};
      std::string name = row.getColumn(3).getString();
      const auto named = names_.find(row.getColumn(4).getInt64());
      if (name.empty() && named != names_.end()) name = named->second;
      std::optional<NcclPayload> payload;
      if (has_payloads_ && name.starts_with("nccl")) payload = payloads_.read(row.getColumn(5).getString());
      const std::int64_t thread = row.getColumn(2).getInt64();
      if (process->second.calls.add(name, begin_ns, end_ns, thread, payload)) {
        if (++pieces_ > 2 * kMostWork) return bad_input("holds too many ranges of NCCL");
      } else if (name.starts_with(kLoaderRange)) {
        process->second.rank.data.push_back({begin_ns, end_ns});
      } else {
        process->second.steps.add(name, begin_ns, end_ns);
      }
      return {};
    });
  }

  struct Gpu {
    std::string name;
    std::int64_t memory_bytes = 0;
  };
  std::map<std::int64_t, Gpu> devices() {
    std::map<std::int64_t, Gpu> found;
    (void)rows("TARGET_INFO_GPU", {"id", "name", "totalMemory"}, [&found](SQLite::Statement& row) -> Status {
      found[row.getColumn(0).getInt64()] = {valid_text(row.getColumn(1).getString()),
                                            std::max<std::int64_t>(row.getColumn(2).getInt64(), 0)};
      return {};
    });
    return found;
  }

  std::string host() {
    std::string name;
    (void)rows("TARGET_INFO_SYSTEM_ENV", {"name", "value"}, [&name](SQLite::Statement& row) -> Status {
      if (row.getColumn(0).getString() == "Hostname") name = valid_text(row.getColumn(1).getString());
      return {};
    });
    return name;
  }

  Result<std::vector<TracedRank>> ranks() {
    std::vector<Process> all;
    for (auto& [number, process] : processes_) all.push_back(std::move(process));
    if (all.empty()) return no_profile();
    // Ranks of a node use its devices in order.
    std::ranges::stable_sort(all, {}, &Process::device);
    const std::map<std::int64_t, Gpu> gpus = devices();
    const std::string node = host();
    std::vector<TracedRank> ranks;
    for (Process& process : all) {
      TracedRank& rank = process.rank;
      process.launches.join(rank.work);
      process.calls.tell(rank);
      rank.steps = process.steps.steps();
      rank.file = path_;
      rank.node = node;
      rank.profiler = Profiler::kNsight;
      rank.on_device = true;
      rank.facts.device = "cuda";
      if (const auto gpu = gpus.find(process.device); gpu != gpus.end()) {
        rank.facts.device_name = gpu->second.name;
        rank.facts.memory_total_bytes = gpu->second.memory_bytes;
      }
      if (graphs_) {
        rank.remarks.emplace_back(
            "CUDA graphs were recorded as one piece each, so what communicates in them counts as computation; record "
            "with nsys profile --cuda-graph-trace=node");
      }
      settle(rank);
      tell_times(rank);
      ranks.push_back(std::move(rank));
    }
    return ranks;
  }

  [[nodiscard]] Error no_profile() {
    std::vector<std::string> tables;
    SQLite::Statement statement(database_, "SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 6");
    while (statement.executeStep()) tables.push_back(statement.getColumn(0).getString());
    const bool is_nsys = has_any({"NVTX_EVENTS", "StringIds", "META_DATA_EXPORT"});
    const std::string names = tables.empty() ? "" : " (tables: " + joined(tables, ", ", quoted_text) + ")";
    return bad_input(is_nsys ? "it is an export of Nsight Systems without a kernel of a device; record with nsys "
                               "profile --trace=cuda,nvtx"
                             : "it is another program's SQLite database" + names + "; " + std::string(kWantedTraces));
  }

  SQLite::Database& database_;
  std::string path_;
  std::map<std::int64_t, TracedKind> kinds_;
  std::map<std::int64_t, std::string> names_;
  std::map<std::int64_t, Process> processes_;
  NcclPayloads payloads_;
  bool has_payloads_ = false;
  std::size_t pieces_ = 0;
  bool graphs_ = false;
};

}  // namespace

Result<std::vector<TracedRank>> read_nsys(const std::string& path) {
  try {
    SQLite::Database database(path, SQLite::OPEN_READONLY);
    auto ranks = Reader(database, path).read();
    if (!ranks) return wrap(path, ranks.error());
    return ranks;
  } catch (const SQLite::Exception& failure) {
    return bad_input(path + ": the SQLite file cannot be read: " + valid_text(failure.what()) +
                     "; export it again: nsys export --type sqlite");
  }
}

}  // namespace trimtab::published
