#include "published/nccl_tests_file.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "documents/json_reader.hpp"

namespace trimtab::published {

namespace {

struct Program {
  std::string_view name;
  std::string_view primitive;
};
constexpr std::array<Program, 7> kPrograms{{{"all_reduce", "all_reduce"},
                                            {"all_gather", "all_gather"},
                                            {"reduce_scatter", "reduce_scatter"},
                                            {"alltoall", "all_to_all"},
                                            {"broadcast", "broadcast"},
                                            {"reduce", "reduce"},
                                            {"sendrecv", "send_recv"}}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kTypes{{{"float", "float32"},
                                                                                {"half", "float16"},
                                                                                {"bfloat16", "bfloat16"},
                                                                                {"double", "float64"},
                                                                                {"int8", "int8"},
                                                                                {"uint8", "uint8"},
                                                                                {"int32", "int32"},
                                                                                {"uint32", "uint32"},
                                                                                {"int64", "int64"},
                                                                                {"uint64", "uint64"}}};

// Variables that only say what NCCL logs, or who listens.
bool changes_times(std::string_view variable) {
  return variable.starts_with("NCCL_") && !variable.starts_with("NCCL_DEBUG") && !variable.starts_with("NCCL_TESTS_") &&
         variable != "NCCL_PROFILER_PLUGIN";
}

class FileReader {
 public:
  explicit FileReader(JsonReader root) : root_(root) {}

  NcclTestsFile read() {
    const IntegerLimits versions{1, 3, "a version of the file from 1 to 3"};
    (void)root_.at("version").integer(versions);
    read_program();
    read_software();
    read_places();
    read_run();
    root_.at("results").each_required([&](JsonReader row) { read_row(row); });
    if (file_.rows.empty() && !root_.failed()) root_.at("results").refuse("there is no size of more than 0 bytes");
    if (empty_sizes_ > 0) {
      file_.remarks.push_back(std::to_string(empty_sizes_) + " rows of 0 bytes are left out");
    }
    return std::move(file_);
  }

 private:
  void read_program() {
    const JsonReader args = root_.at("args");
    std::vector<std::string> words = args.texts();
    const std::string path = words.empty() ? "" : words.front();
    std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);  // npos + 1 is 0
    name = name.substr(0, name.find("_perf"));
    const auto* found = std::ranges::find(kPrograms, name, &Program::name);
    if (found == kPrograms.end()) {
      args.fail(
          "a program of nccl-tests whose times are costs (all_reduce_perf, all_gather_perf, reduce_scatter_perf, "
          "alltoall_perf, broadcast_perf, reduce_perf, sendrecv_perf) as the first argument");
      return;
    }
    file_.primitive = found->primitive;
    if (file_.primitive == "send_recv") file_.kind = CostKind::kPointToPoint;
  }

  // 22809 is 2.28.9; before 2.9 a digit was missing: 2708.
  void read_software() {
    const std::int64_t code = root_.at("nccl_version").integer(kPositive32);
    const std::int64_t major = code < 10000 ? code / 1000 : code / 10000;
    const std::int64_t minor = code < 10000 ? code % 1000 / 100 : code % 10000 / 100;
    file_.nccl = std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(code % 100);
    for (const std::string& entry : root_.at("env").texts()) {
      const std::size_t equals = entry.find('=');
      if (equals == std::string::npos || !changes_times(std::string_view(entry).substr(0, equals))) continue;
      file_.environment[entry.substr(0, equals)] = entry.substr(equals + 1);
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
    file_.gpu = *models.begin();
    std::set<std::int32_t> sizes;
    for (const auto& [group, hosts] : groups) {
      std::int32_t size = 0;
      for (const auto& [host, ranks] : hosts) {
        size += ranks;
        file_.ranks_per_node = std::max(file_.ranks_per_node, ranks);
      }
      sizes.insert(size);
      file_.nodes = std::max(file_.nodes, static_cast<std::int32_t>(hosts.size()));
    }
    if (sizes.size() > 1) return devices.fail("groups of equal size");
    file_.group_size = *sizes.begin();
    if (file_.group_size < 2) devices.refuse("expected 2 ranks or more in a group: one alone communicates with nobody");
  }

  void read_run() {
    const JsonReader config = root_.at("config");
    const JsonReader grouped = config.at("aggregated_iterations");
    if (grouped.integer(kPositive32) != 1 && !root_.failed()) {
      grouped.refuse("expected 1: the times of grouped operations (-m) are not those of one");
    }
    if (config.at("graph").integer_or(0, kNonNegative32) > 0) {
      file_.remarks.emplace_back("the times are those of replayed CUDA graphs (-G)");
    }
    const JsonReader errors = root_.at("out_of_bounds");  // written when a run has ended
    if (!errors.present()) return errors.fail("this field, which a run writes when it ends: the run did not");
    if (errors.at("count").integer(kNonNegative) != 0 && !root_.failed()) {
      errors.at("count").refuse("expected 0: the results of this run were wrong");
    }
  }

  void read_row(JsonReader row) {
    NcclTestsRow out;
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
    file_.rows.push_back(std::move(out));
  }

  static std::string dtype_of(JsonReader type) {
    const std::string name = type.text();
    const auto* found = std::ranges::find(kTypes, name, &std::pair<std::string_view, std::string_view>::first);
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
  NcclTestsFile file_;
  std::string reduction_;
  int empty_sizes_ = 0;
};

}  // namespace

Result<NcclTestsFile> parse_nccl_tests(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(text, source, ""));
  NcclTestsFile file = FileReader(document.root()).read();
  TRIMTAB_TRY_STATUS(document.status());
  return file;
}

}  // namespace trimtab::published
