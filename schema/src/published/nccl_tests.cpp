// Runs of nccl-tests as costs: one profile for each file, under the fingerprint that the file itself tells. A file is
// the JSON that nccl-tests write with -J FILE (NVIDIA/nccl-tests, src/util.cu; file versions 1 to 3), or what they
// print.

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <set>

#include "documents/json_reader.hpp"
#include "published/formats.hpp"
#include "published/measured.hpp"
#include "published/nccl_tests_text.hpp"
#include "published/text_file.hpp"
#include "schema/hash64.hpp"

namespace trimtab::published {

namespace {

using Named = std::pair<std::string_view, std::string_view>;  // theirs, ours
constexpr std::array<Named, 7> kPrograms{{{"all_reduce", "all_reduce"},
                                          {"all_gather", "all_gather"},
                                          {"reduce_scatter", "reduce_scatter"},
                                          {"alltoall", "all_to_all"},
                                          {"broadcast", "broadcast"},
                                          {"reduce", "reduce"},
                                          {"sendrecv", "send_recv"}}};

constexpr std::array<Named, 10> kTypes{{{"float", "float32"},
                                        {"half", "float16"},
                                        {"bfloat16", "bfloat16"},
                                        {"double", "float64"},
                                        {"int8", "int8"},
                                        {"uint8", "uint8"},
                                        {"int32", "int32"},
                                        {"uint32", "uint32"},
                                        {"int64", "int64"},
                                        {"uint64", "uint64"}}};

// One size of a run, in or out of place or both.
struct RunRow {
  std::int64_t size = 0;                  // "size": bytes of the larger of a rank's two buffers
  std::string dtype;                      // as in documents: "float32"
  std::vector<std::int64_t> nanoseconds;  // one mean for each place; every iteration where the file has them
};

struct Run {
  CostKind kind = CostKind::kCollective;
  std::string primitive;  // "all_reduce"; "send_recv" with kPointToPoint
  std::string gpu;        // one model for all
  std::string nccl;       // "2.28.9"
  std::int32_t group_size = 0;
  std::int32_t nodes = 0;                          // on which a group's ranks are
  std::int32_t ranks_per_node = 0;                 // the most of a group
  std::map<std::string, std::string> environment;  // NCCL's variables that change times
  std::vector<RunRow> rows;
  std::vector<std::string> remarks;
};

// Variables that only say what NCCL logs, or who listens.
bool changes_times(std::string_view variable) {
  return variable.starts_with("NCCL_") && !variable.starts_with("NCCL_DEBUG") && !variable.starts_with("NCCL_TESTS_") &&
         variable != "NCCL_PROFILER_PLUGIN";
}

// Refuses, with file and field, another program's file, a newer version, a run that did not end or gave wrong results,
// CPU times (-C), grouped operations (-m), GPUs of several models, several reductions, groups of unequal size.
class RunReader {
 public:
  explicit RunReader(JsonReader root) : root_(root) {}

  Run read() {
    (void)root_.at("version").integer({1, 3, "a version of the file from 1 to 3"});
    read_program();
    read_software();
    read_places();
    read_run();
    root_.at("results").each_required([&](JsonReader row) { read_row(row); });
    if (run_.rows.empty() && !root_.failed()) root_.at("results").refuse("there is no size of more than 0 bytes");
    if (empty_sizes_ > 0) {
      run_.remarks.push_back(std::to_string(empty_sizes_) + " rows of 0 bytes are left out");
    }
    return std::move(run_);
  }

 private:
  void read_program() {
    const JsonReader args = root_.at("args");
    std::vector<std::string> words = args.texts();
    const std::string path = words.empty() ? "" : words.front();
    std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);  // npos + 1 is 0
    name = name.substr(0, name.find("_perf"));
    const auto* found = std::ranges::find(kPrograms, name, &Named::first);
    if (found == kPrograms.end()) {
      args.fail(
          "a program of nccl-tests whose times are costs (all_reduce_perf, all_gather_perf, reduce_scatter_perf, "
          "alltoall_perf, broadcast_perf, reduce_perf, sendrecv_perf) as the first argument");
      return;
    }
    run_.primitive = found->second;
    if (run_.primitive == "send_recv") run_.kind = CostKind::kPointToPoint;
  }

  // 22809 is 2.28.9; before 2.9 a digit was missing: 2708.
  void read_software() {
    if (!root_.at("nccl_version").present()) {
      run_.remarks.emplace_back("it does not say NCCL's version");
      return;
    }
    const std::int64_t code = root_.at("nccl_version").integer(kPositive32);
    const std::int64_t major = code < 10000 ? code / 1000 : code / 10000;
    const std::int64_t minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
    run_.nccl = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
    for (const std::string& entry : root_.at("env").texts()) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string::npos || !changes_times(std::string_view(entry).substr(0, equals))) continue;
      run_.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }

  // A process lists only the first of its devices: each entry stands for nthreads * ngpus ranks.
  void read_places() {
    const JsonReader config = root_.at("config");
    const std::int32_t each = config.at("nthreads").integer32({1, 1024, "a number of threads"}) *
                              config.at("ngpus").integer32({1, 1024, "a number of GPUs"});
    std::map<std::int64_t, std::map<std::string, std::int32_t>> groups;  // ranks by host
    std::set<std::string> models;
    const JsonReader devices = config.at("devices");
    devices.each_required([&](JsonReader device) {
      groups[device.at("group").integer(kNonNegative32)][device.at("hostname").text()] += each;
      models.insert(device.at("device_info").text());
    });
    if (root_.failed()) return;
    if (models.size() > 1) return devices.fail("GPUs of one model");
    run_.gpu = *models.begin();
    std::set<std::int32_t> sizes;
    for (const auto& [group, hosts] : groups) {
      std::int32_t size = 0;
      for (const auto& [host, ranks] : hosts) {
        size += ranks;
        run_.ranks_per_node = std::max(run_.ranks_per_node, ranks);
      }
      sizes.insert(size);
      run_.nodes = std::max(run_.nodes, static_cast<std::int32_t>(hosts.size()));
    }
    if (sizes.size() > 1) return devices.fail("groups of equal size");
    run_.group_size = *sizes.begin();
    if (run_.group_size < 2) devices.refuse("expected 2 ranks or more in a group: one alone communicates with nobody");
  }

  void read_run() {
    const JsonReader config = root_.at("config");
    const JsonReader grouped = config.at("aggregated_iterations");
    if (grouped.integer(kPositive32) != 1 && !root_.failed()) {
      grouped.refuse("expected 1: the times of grouped operations (-m) are not those of one");
    }
    if (config.at("graph").integer_or(0, kNonNegative32) > 0) {
      run_.remarks.emplace_back("the times are those of replayed CUDA graphs (-G)");
    }
    const JsonReader errors = root_.at("out_of_bounds");  // written when a run has ended
    if (!errors.present()) return errors.fail("this field, which a run writes when it ends: the run did not");
    if (errors.at("count").integer(kNonNegative) != 0 && !root_.failed()) {
      errors.at("count").refuse("expected 0: the results of this run were wrong");
    }
  }

  void read_row(JsonReader row) {
    RunRow out;
    out.size = row.at("size").integer(kNonNegative);
    out.dtype = dtype_of(row.at("type"));
    const std::string reduction = row.at("redop").text();
    if (reduction_.empty()) reduction_ = reduction;
    if (reduction != reduction_ && !root_.failed()) {
      row.at("redop").refuse("expected one reduction in a file, found " + quoted_text(reduction) + " after " +
                             quoted_text(reduction_) + ": run with -o sum");
    }
    if (root_.failed()) return;
    if (out.size == 0) {
      ++empty_sizes_;
      return;
    }
    for (const char* place : {"out_of_place", "in_place"}) read_times(row, place, out.nanoseconds);
    if (out.nanoseconds.empty() && !root_.failed()) row.fail("out_of_place or in_place");
    run_.rows.push_back(std::move(out));
  }

  static std::string dtype_of(JsonReader type) {
    const std::string name = type.text();
    const auto* found = std::ranges::find(kTypes, name, &Named::first);
    if (found != kTypes.end()) return std::string(found->second);
    if (!name.starts_with("f8") && !name.starts_with("fp8")) type.fail("a type of NCCL (float, half, bfloat16, ...)");
    return name;
  }

  static void read_times(JsonReader row, const std::string& place, std::vector<std::int64_t>& nanoseconds) {
    const JsonReader result = row.at(place);
    if (!result.present()) return;
    if (result.at("cpu_time").present()) {
      return result.at("cpu_time").refuse("these are times of the CPU (-C), not of the collective");
    }
    const JsonReader wrong = result.at("nwrong");  // null where results were not checked (-c 0)
    if (wrong.present() && wrong.number() != 0) return wrong.refuse("expected 0: the results of this row were wrong");
    const JsonReader iterations = row.at(place + "_per_iter");
    if (!iterations.present()) return add(result.at("time"), nanoseconds);
    std::int64_t skipped = iterations.at("skipped_iterations").integer_or(0, kNonNegative32);
    iterations.at("times_us").each_required([&](JsonReader time) {
      if (skipped-- <= 0) add(time, nanoseconds);
    });
  }

  static void add(JsonReader microseconds, std::vector<std::int64_t>& nanoseconds) {
    constexpr double kHour = 3.6e9;
    const double value = microseconds.number();
    if (microseconds.failed()) return;
    if (value <= 0 || value > kHour) return microseconds.fail("microseconds of more than 0 and at most an hour");
    nanoseconds.push_back(std::llround(value * 1000));
  }

  JsonReader root_;
  Run run_;
  std::string reduction_;
  int empty_sizes_ = 0;
};

Fingerprint fingerprint_of(const Run& run) {
  Fingerprint fingerprint;
  fingerprint.device = {{"kind", "gpu"}, {"model", run.gpu}};
  if (!run.nccl.empty()) fingerprint.software = {{"nccl", run.nccl}};
  fingerprint.fabric = {{"nodes", std::to_string(run.nodes)}, {"gpus", std::to_string(run.ranks_per_node)}};
  fingerprint.environment = run.environment;
  fingerprint.environment["measured_by"] = "nccl-tests";
  return fingerprint;
}

std::vector<Cost> costs_of(const Run& run) {
  const bool transfer = run.kind == CostKind::kPointToPoint;
  std::map<CostKey, Statistics> costs;  // a size that was run twice is one cost
  for (const RunRow& row : run.rows) {
    // A cost's bytes are a rank's input. nccl-tests say the larger of its two buffers: of an all-gather the output.
    const std::int64_t input = run.primitive == "all_gather" ? row.size / run.group_size : row.size;
    const CostKey key = link_key(run.kind, run.primitive, transfer ? "" : row.dtype, input,
                                 transfer ? 0 : run.group_size, run.nodes > 1);
    for (const std::int64_t nanoseconds : row.nanoseconds) costs[canonical(key)].add(nanoseconds);
  }
  std::vector<Cost> list;
  for (const auto& [key, statistics] : costs) list.push_back({key, statistics});
  return list;
}

Result<TextFile> read_run(const std::string& path) {
  std::filesystem::path name(path);
  if (name.extension() == ".gz") name.replace_extension();
  const std::string directory = name.parent_path().string();
  return read_text_file(directory.empty() ? "." : directory, name.filename().string());
}

}  // namespace

Result<Published> read_nccl_tests(const std::vector<std::string>& files) {
  Published published;
  for (const std::string& path : files) {
    TRIMTAB_TRY(const TextFile text, read_run(path));
    const bool printed = is_nccl_tests_text(text.text);
    std::string json;
    if (printed) {
      TRIMTAB_TRY(json, nccl_tests_document(text.text, text.path, std::filesystem::path(path).filename().string()));
    }
    TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(printed ? json : text.text, text.path, ""));
    Run run = RunReader(document.root()).read();
    if (printed) run.remarks.emplace_back("NCCL's variables are not printed: those that were set are not known");
    TRIMTAB_TRY_STATUS(document.status());
    const Fingerprint fingerprint = fingerprint_of(run);
    // The same file counts once under one fingerprint, wherever it lies.
    const std::string origin = "import:nccl-tests/" + hash64_hex(text.text) + "/" + hash(fingerprint);
    published.costs.push_back({fingerprint, "import:nccl-tests", origin, costs_of(run)});
    for (const std::string& remark : run.remarks) published.remarks.push_back(text.path + ": " + remark);
  }
  return published;
}

}  // namespace trimtab::published
