#include "published/aceso/folder.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <tuple>

#include "documents/json_document.hpp"
#include "published/aceso/cache.hpp"
#include "published/csv_table.hpp"

namespace trimtab::published {

namespace {

constexpr double kMib = 1048576;
constexpr double kMaxUs = 1e12;   // 11 days
constexpr double kMaxMib = 1e9;   // 1 PB
constexpr double kMaxRate = 1e6;  // GiB/s
// What the profiler writes where a run failed (1e7 us) or was left out (1e9 ms), or failed (1e6 ms).
constexpr double kFailedUs = 1e7;
constexpr double kFailedMs = 1e6;
constexpr const char* kIntraFile = "p2p_intra_node.csv";
constexpr const char* kInterFile = "p2p_inter_node.csv";

std::string dtype_of(const std::string& model) {
  return model == "resnet" ? "float32" : "float16";
}

// A folder while it is read.
struct Folder {
  std::string path;
  std::vector<std::string> names;
  std::string database;
  AcesoCache cache;

  [[nodiscard]] bool has(const std::string& name) const { return std::binary_search(names.begin(), names.end(), name); }
};

// "1, 2,4" as numbers; false where one is not a positive number.
bool read_numbers(std::string_view line, std::vector<double>& numbers) {
  while (true) {
    std::string_view cell = line.substr(0, line.find(','));
    const std::size_t width = cell.size();
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r')) cell.remove_suffix(1);
    double value = 0;
    const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (failure != std::errc{} || end != cell.data() + cell.size() || !(value > 0 && value <= kMaxRate)) return false;
    numbers.push_back(value);
    if (width == line.size()) return true;
    line.remove_prefix(width + 1);
  }
}

// Two lines: sizes in MiB, bandwidths in GiB/s. The profiler appends two more with every run; its search reads the
// first two, and so does this.
Status read_links(const Folder& folder, bool inter_node, std::vector<TransferRow>& rows) {
  TRIMTAB_TRY(const TextFile file, read_raw_file(folder.path, inter_node ? kInterFile : kIntraFile));
  std::string_view text = file.text;
  std::vector<double> lines[2];
  for (int i = 0; i < 2; ++i) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (read_numbers(line, lines[i])) continue;
    return bad_input(file.path + ":" + std::to_string(i + 1) + ": expected " +
                     (i == 0 ? "sizes in MiB" : "bandwidths in GiB/s") +
                     ", positive numbers with commas between, found " + (line.empty() ? "nothing" : quoted_text(line)));
  }
  if (lines[0].size() != lines[1].size()) {
    return bad_input(file.path + ":2: expected " + std::to_string(lines[0].size()) +
                     " bandwidths, one for each size, found " + std::to_string(lines[1].size()));
  }
  for (std::size_t i = 0; i < lines[0].size(); ++i) {
    if (i > 0 && lines[0][i] <= lines[0][i - 1]) return bad_input(file.path + ":1: expected rising sizes");
    rows.push_back({folder.database, inter_node, std::llround(lines[0][i] * kMib), lines[1][i]});
  }
  return {};
}

// The authors' two machines, known by what their links measured.
std::string testbed_of(const std::vector<TransferRow>& rows) {
  static const std::vector<double> kEurosys{17.22, 24.83, 31.25, 35.88, 39.03, 40.73,
                                            41.65, 42.12, 42.37, 42.49, 42.46};
  static const std::vector<double> kMiniset{7.41, 8.20, 10.18, 10.57, 10.81, 10.93, 10.96, 11.01, 11.02, 11.05, 11.05};
  std::vector<double> rates;
  for (const TransferRow& row : rows) {
    if (!row.inter_node) rates.push_back(row.gib_per_s);
  }
  if (rates == kEurosys) return "eurosys";
  return rates == kMiniset ? "miniset" : "";
}

std::string own_name(const std::string& path) {
  std::error_code failure;
  std::string name = std::filesystem::weakly_canonical(path, failure).filename().string();
  for (char& c : name) {
    if (!fit_for_a_file_name("x" + std::string(1, c))) c = '_';
  }
  return fit_for_a_file_name(name) ? name : "profile";
}

// A size of the table, with the cache's digits where it has the same number.
Bytes size_of(CsvRow& row, const char* column, const std::vector<double>* cached, std::size_t index) {
  constexpr double kRounding = 0.000501;
  const double mib = row.number(column, 0, kMaxMib);
  const bool same = cached != nullptr && std::fabs((*cached)[index] - mib) <= kRounding;
  return std::llround((same ? (*cached)[index] : mib) * kMib);
}

Status read_operators(const Folder& folder, const std::string& name, const AcesoOperatorFile& from,
                      std::vector<OperatorRow>& rows, std::size_t& failed) {
  TRIMTAB_TRY(TextFile file, read_raw_file(folder.path, name));
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), {"op_name", "forward-compute", "backward-compute",
                                                                     "input_size", "output_size", "weights",
                                                                     "activations", "fwd_reserved", "bwd_reserved"}));
  std::set<std::string> seen;
  return table.each([&](CsvRow& in) {
    OperatorRow row;
    row.profile = {folder.database, from.model, from.size};
    row.dtype = dtype_of(from.model);
    row.op = in.name("op_name");
    row.samples = from.samples;
    row.tp = from.tp;
    row.alternate = from.alternate;
    const std::vector<double>* const cached =
        folder.cache.operator_values(from.model + "_" + from.size + row.op + "mbs" + std::to_string(from.samples) +
                                     "tp_size" + std::to_string(from.tp) + "algo" + (from.alternate ? "1" : "0"));
    row.measured.forward_us = in.number("forward-compute", 0, kMaxUs);
    row.measured.backward_us = in.number("backward-compute", 0, kMaxUs);
    row.measured.input = size_of(in, "input_size", cached, 2);
    row.measured.output = size_of(in, "output_size", cached, 3);
    row.measured.parameters = size_of(in, "weights", cached, 4);
    row.measured.stored = size_of(in, "activations", cached, 5);
    row.measured.forward_reserve = size_of(in, "fwd_reserved", cached, 6);
    row.measured.backward_reserve = size_of(in, "bwd_reserved", cached, 7);
    if (!in.failed() && !seen.insert(row.op).second) in.fail("op_name", "each operator once");
    if (row.measured.forward_us == kFailedUs && row.measured.backward_us == kFailedUs) {
      ++failed;
    } else {
      rows.push_back(std::move(row));
    }
  });
}

Status read_collectives(const Folder& folder, const std::string& name, const AcesoCollectiveFile& from,
                        std::vector<CollectiveRow>& rows) {
  TRIMTAB_TRY(TextFile file, read_raw_file(folder.path, name));
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), {"data_size(MB)", "time(ms)"}));
  const std::string kind = from.primitive + "_" + std::to_string(from.group_size) + "gpus";
  const std::string type = dtype_of(from.model) == "float32" ? "torch.float32" : "torch.float16";
  std::set<std::int64_t> seen;
  return table.each([&](CsvRow& in) {
    CollectiveRow row;
    row.profile = {folder.database, from.model, from.size};
    row.dtype = dtype_of(from.model);
    row.primitive = from.primitive;
    row.group_size = from.group_size;
    const std::int64_t mib = in.integer("data_size(MB)", 0, 1 << 20);
    const double ms = in.number("time(ms)", 0, 1e9);
    row.measured = ms < kFailedMs;
    const Bytes cached = row.measured ? folder.cache.collective_bytes(kind, type, mib, ms) : -1;
    row.bytes = cached >= 0 ? cached : mib << 20;
    row.us = ms * 1000;
    if (!in.failed() && !seen.insert(mib).second) in.fail("data_size(MB)", "each size once");
    rows.push_back(std::move(row));
  });
}

Error nothing_found(const Folder& folder) {
  std::string inner;
  for (const std::string& name : folder.names) {
    if (name.starts_with("profiled-time")) inner += (inner.empty() ? "" : " and ") + folder.path + "/" + name;
  }
  return bad_input(
      folder.path +
      ": expected the folder that Aceso's profiler writes, with tables called MODEL_SIZE_mbsM_tpT_algoA.csv (MODEL is "
      "gpt, t5 or resnet), found " +
      (folder.names.empty() ? "an empty directory"
                            : "none among " + std::to_string(folder.names.size()) + " names, of which the first is " +
                                  quoted_text(folder.names.front())) +
      "; " +
      (inner.empty() ? "give that folder (profiler/profiled-time-eurosys of microsoft/SuperScaler)" : "give " + inner));
}

// By what is measured, whatever the files' names sort like: what is stored and its digest depend on it.
void put_in_order(AcesoTables& tables) {
  const auto of_operator = [](const OperatorRow& row) {
    return std::tie(row.profile, row.samples, row.tp, row.alternate);
  };
  const auto of_collective = [](const CollectiveRow& row) {
    return std::tie(row.profile, row.primitive, row.group_size, row.bytes);
  };
  std::stable_sort(tables.operators.begin(), tables.operators.end(),
                   [&](const auto& a, const auto& b) { return of_operator(a) < of_operator(b); });
  std::stable_sort(tables.collectives.begin(), tables.collectives.end(),
                   [&](const auto& a, const auto& b) { return of_collective(a) < of_collective(b); });
}

Status read_folder(Folder& folder, AcesoTables& tables, std::vector<std::string>& remarks) {
  std::vector<TransferRow> links;
  if (folder.has(kIntraFile)) TRIMTAB_TRY_STATUS(read_links(folder, false, links));
  if (folder.has(kInterFile)) TRIMTAB_TRY_STATUS(read_links(folder, true, links));
  folder.database = testbed_of(links);
  if (folder.database.empty()) {
    folder.database = own_name(folder.path);
    tables.own.push_back(folder.database);
  }
  for (TransferRow& row : links) row.database = folder.database;
  tables.transfers.insert(tables.transfers.end(), links.begin(), links.end());
  TRIMTAB_TRY(folder.cache, AcesoCache::read(folder.path, folder.names));
  std::size_t files = 0;
  std::size_t failed = 0;
  for (const std::string& name : folder.names) {
    AcesoOperatorFile operators;
    AcesoCollectiveFile collectives;
    if (parse_operator_file(name, operators)) {
      TRIMTAB_TRY_STATUS(read_operators(folder, name, operators, tables.operators, failed));
      ++files;
    } else if (parse_collective_file(name, collectives)) {
      TRIMTAB_TRY_STATUS(read_collectives(folder, name, collectives, tables.collectives));
    } else if (name.ends_with(".csv") && name != kIntraFile && name != kInterFile) {
      remarks.push_back(folder.path + "/" + valid_text(name) + ": not a name that Aceso's profiler gives: not read");
    }
  }
  if (files == 0) return nothing_found(folder);
  if (!folder.has(kIntraFile)) {
    remarks.push_back(folder.path + ": " + kIntraFile + " is not there: transfers between stages have no costs");
  }
  if (failed > 0) {
    remarks.push_back(folder.path + ": " + std::to_string(failed) +
                      " operators failed when they were measured (10 s "
                      "each in the table): not stored");
  }
  return {};
}

}  // namespace

Result<AcesoTables> read_aceso_folders(const std::vector<std::string>& directories, std::vector<std::string>& remarks) {
  AcesoTables tables;
  std::set<std::string> databases;
  for (const std::string& directory : directories) {
    Folder folder;
    folder.path = directory;
    TRIMTAB_TRY(folder.names, names_in(directory));
    TRIMTAB_TRY_STATUS(read_folder(folder, tables, remarks));
    if (!databases.insert(folder.database).second) {
      return bad_input(directory + ": a second folder of '" + folder.database +
                       "': give folders of different machines, with names of their own");
    }
  }
  put_in_order(tables);
  return tables;
}

}  // namespace trimtab::published
