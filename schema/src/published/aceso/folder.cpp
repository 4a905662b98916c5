#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "base/numbers.hpp"
#include "documents/json_document.hpp"
#include "published/aceso/tables.hpp"
#include "published/csv_table.hpp"
#include "published/measured.hpp"
#include "published/pickle_document.hpp"

namespace trimtab::published {

namespace {

constexpr double kMaxUs = 1e12;   // 11 days
constexpr double kMaxMib = 1e9;   // 1 PB
constexpr double kMaxRate = 1e6;  // GiB/s
// What the profiler writes where a run failed (1e7 us) or was left out (1e9 ms), or failed (1e6 ms).
constexpr double kFailedUs = 1e7;
constexpr double kFailedMs = 1e6;
constexpr const char* kIntraFile = "p2p_intra_node.csv";
constexpr const char* kInterFile = "p2p_inter_node.csv";

// What a file's name says, "gpt_1_3B_mbs1_tp2_algo0.csv".
struct AcesoOperatorFile {
  std::string model;
  std::string size;
  std::int32_t samples = 1;
  std::int32_t tp = 1;
  bool alternate = false;
};
// "prim_gpt_1_3B_all_gather_2gpus.csv".
struct AcesoCollectiveFile {
  std::string model;
  std::string size;
  std::string primitive;
  std::int32_t group_size = 2;
};
constexpr std::array<std::string_view, 3> kFamilies{"gpt", "t5", "resnet"};  // that the profiler knows
constexpr std::array<std::string_view, 4> kPrimitives{"all_gather", "all_to_all", "all_reduce", "reduce_scatter"};

bool drop_suffix(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

// Takes "_tp8" off the end: the mark and a positive number.
bool take_number(std::string_view& text, std::string_view mark, std::int32_t low, std::int32_t& value) {
  const std::size_t at = text.rfind(mark);
  if (at == std::string_view::npos) return false;
  const auto read = parse_number<std::int32_t>(text.substr(at + mark.size()));
  value = read.value_or(low - 1);
  text = text.substr(0, at);
  return value >= low;
}

// "gpt_1_3B".
bool take_model(std::string_view text, std::string& model, std::string& size) {
  const std::size_t end = text.find('_');
  if (end == std::string_view::npos) return false;
  model = std::string(text.substr(0, end));
  size = std::string(text.substr(end + 1));
  return std::ranges::count(kFamilies, model) > 0 && fit_for_a_file_name(size);
}

// False where the name is not of this form.
bool parse_operator_file(std::string_view name, AcesoOperatorFile& file) {
  std::int32_t choice = 0;
  if (!drop_suffix(name, ".csv") || !take_number(name, "_algo", 0, choice) || choice > 1) return false;
  if (!take_number(name, "_tp", 1, file.tp) || !take_number(name, "_mbs", 1, file.samples)) return false;
  file.alternate = choice == 1;
  return take_model(name, file.model, file.size);
}

bool parse_collective_file(std::string_view name, AcesoCollectiveFile& file) {
  constexpr std::string_view kPrefix = "prim_";
  if (!name.starts_with(kPrefix) || !drop_suffix(name, "gpus.csv")) return false;
  name.remove_prefix(kPrefix.size());
  if (!take_number(name, "_", 2, file.group_size)) return false;
  for (const std::string_view primitive : kPrimitives) {
    std::string_view rest = name;
    if (!drop_suffix(rest, primitive) || !drop_suffix(rest, "_")) continue;
    file.primitive = std::string(primitive);
    return take_model(rest, file.model, file.size);
  }
  return false;
}

std::string dtype_of(const std::string& model) {
  return model == "resnet" ? "float32" : "float16";
}

// The caches that Aceso's profiler leaves beside its tables (*.pkl). The tables have three decimals of a MiB for an
// operator's sizes and whole MiB for a collective's; the caches have what was measured.

constexpr double kMostMib = 1e9;
constexpr double kMostMs = 1e9;

// "all_gather_2gpus_2.5_torch.float16" in three parts; false for the key of an operator.
bool split_collective(std::string_view key, std::string& kind, double& mib) {
  const std::size_t type = key.rfind("_torch.");
  if (type == std::string_view::npos) return false;
  const std::string_view front = key.substr(0, type);
  const std::size_t size = front.rfind("gpus_");
  if (size == std::string_view::npos) return false;
  mib = parse_number<double>(front.substr(size + 5)).value_or(-1);
  if (!(mib >= 0 && mib <= kMostMib)) return false;
  kind = std::string(front.substr(0, size + 4)) + " " + std::string(key.substr(type + 1));
  return true;
}

// Of the values that a cache has of an operator: forward and backward us, then these in MiB.
constexpr std::size_t kCachedValues = 8;

class AcesoCache {
 public:
  // Every NAME that ends in ".pkl". The error names the file and what is not plain data in it.
  [[nodiscard]] static Result<AcesoCache> read(const std::string& directory, const std::vector<std::string>& names);

  // An operator's sizes, where the cache has it: "gpt_1_3Benc-MLP-gelumbs1tp_size1algo0".
  [[nodiscard]] const std::vector<double>* operator_values(const std::string& key) const;
  // The first size that rounds to `mib` whose time the table's three decimals write as `ms`; -1 where the cache has
  // none. `kind`: "all_gather_2gpus", `type`: "torch.float16".
  [[nodiscard]] Bytes collective_bytes(const std::string& kind, const std::string& type, std::int64_t mib,
                                       double ms) const;

 private:
  struct Collective {
    double mib = 0;
    double ms = 0;
  };
  [[nodiscard]] Status read_file(const std::string& directory, const std::string& name);

  std::map<std::string, std::vector<double>> operators_;
  std::map<std::string, std::vector<Collective>> collectives_;  // "all_gather_2gpus torch.float16", as in the file
};

Result<AcesoCache> AcesoCache::read(const std::string& directory, const std::vector<std::string>& names) {
  AcesoCache cache;
  for (const std::string& name : names) {
    if (name.ends_with(".pkl")) TRIMTAB_TRY_STATUS(cache.read_file(directory, name));
  }
  return cache;
}

Status AcesoCache::read_file(const std::string& directory, const std::string& name) {
  TRIMTAB_TRY(TextFile file, read_raw_file(directory, name));
  TRIMTAB_TRY(const PickleDocument pickle, PickleDocument::parse(std::move(file)));
  const PickleNode* const results = pickle.find(pickle.root(), "profiled_results");
  if (results == nullptr || results->kind != PickleKind::kMapping) {
    return bad_input(pickle.path() +
                     ": expected the cache of Aceso's profiler, a dictionary with 'profiled_results'; "
                     "to read the tables beside it alone, move this file away");
  }
  for (std::size_t i = 0; i + 1 < results->children.size(); i += 2) {
    const PickleNode& key = pickle.at(results->children[i]);
    const PickleNode& value = pickle.at(results->children[i + 1]);
    const auto refuse = [&](const std::string& expected) {
      return bad_input(pickle.path() + ": profiled_results[" + quoted_text(key.text) + "]: expected " + expected);
    };
    if (key.kind != PickleKind::kText) return refuse("a text as key");
    std::string kind;
    Collective collective;
    if (split_collective(key.text, kind, collective.mib)) {
      const bool time = value.kind == PickleKind::kNumber && value.number >= 0 && value.number <= kMostMs;
      if (!time) return refuse("a time in ms, at most 1e9");
      collective.ms = value.number;
      collectives_[kind].push_back(collective);
      continue;
    }
    if (value.kind != PickleKind::kSequence || value.children.size() != kCachedValues) return refuse("eight numbers");
    std::vector<double> values;
    for (const std::uint32_t child : value.children) {
      if (pickle.at(child).kind != PickleKind::kNumber) return refuse("eight numbers");
      values.push_back(pickle.at(child).number);
    }
    operators_.insert_or_assign(std::string(key.text), std::move(values));
  }
  return {};
}

const std::vector<double>* AcesoCache::operator_values(const std::string& key) const {
  const auto found = operators_.find(key);
  return found == operators_.end() ? nullptr : &found->second;
}

Bytes AcesoCache::collective_bytes(const std::string& kind, const std::string& type, std::int64_t mib,
                                   double ms) const {
  const auto found = collectives_.find(kind + " " + type);
  if (found == collectives_.end()) return -1;
  const auto thousandths = [](double value) { return std::llround(value * 1000); };
  for (const Collective& one : found->second) {
    const bool same = std::llrint(one.mib) == mib && thousandths(one.ms) == thousandths(ms);
    if (same) return std::llround(one.mib * kMib);
  }
  return -1;
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
    const auto value = parse_number<double>(cell);
    if (!value || !(*value > 0 && *value <= kMaxRate)) return false;
    numbers.push_back(*value);
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
  static const std::vector<std::string_view> kColumns{"op_name",     "forward-compute", "backward-compute",
                                                      "input_size",  "output_size",     "weights",
                                                      "activations", "fwd_reserved",    "bwd_reserved"};
  TRIMTAB_TRY(const TextFile file, read_raw_file(folder.path, name));
  std::set<std::string> seen;
  return each_row(file, kColumns, [&](CsvRow& in) {
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
  TRIMTAB_TRY(const TextFile file, read_raw_file(folder.path, name));
  const std::string kind = from.primitive + "_" + std::to_string(from.group_size) + "gpus";
  const std::string type = dtype_of(from.model) == "float32" ? "torch.float32" : "torch.float16";
  std::set<std::int64_t> seen;
  return each_row(file, {"data_size(MB)", "time(ms)"}, [&](CsvRow& in) {
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
      none_among(folder.names) + "; " +
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
  std::ranges::stable_sort(tables.operators, {}, of_operator);
  std::ranges::stable_sort(tables.collectives, {}, of_collective);
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
