// Our neutral tables of Aceso's published profile.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/numbers.hpp"
#include "documents/json_reader.hpp"
#include "published/aceso/tables.hpp"
#include "published/csv_table.hpp"
#include "published/measured.hpp"

namespace trimtab::published {

namespace {

constexpr double kMaxUs = 1e12;  // 11 days
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

ProfileName read_profile(CsvRow& row) {
  return {row.name("db"), row.name("model"), row.name("size")};
}

std::string read_dtype(CsvRow& row) {
  return row.choice("dtype", {"fp16", "fp32"}) == 0 ? "float16" : "float32";
}

// The two columns of a size, which must say the same.
Bytes read_size(CsvRow& row, const std::string& mib_column, const std::string& bytes_column) {
  const double mib = row.number(mib_column, 0, static_cast<double>(kMaxBytes) / kMib);
  const Bytes bytes = row.integer(bytes_column, 0, kMaxBytes);
  constexpr double kRounding = 0.000501;  // of three decimals
  if (!row.failed() && std::fabs(static_cast<double>(bytes) / kMib - mib) > kRounding) {
    row.fail(bytes_column, "the bytes of " + std::string(row.cell(mib_column)) + " MiB in " + mib_column);
  }
  return bytes;
}

// Of an operator.
struct SizeColumns {
  const char* mib;
  const char* bytes;
  Bytes OperatorMeasurement::*size;
};
constexpr SizeColumns kSizes[] = {{"input_mib", "input_bytes", &OperatorMeasurement::input},
                                  {"output_mib", "output_bytes", &OperatorMeasurement::output},
                                  {"weight_mib", "weight_bytes", &OperatorMeasurement::parameters},
                                  {"activation_mib", "activation_bytes", &OperatorMeasurement::stored},
                                  {"fwd_reserved_mib", "fwd_reserved_bytes", &OperatorMeasurement::forward_reserve},
                                  {"bwd_reserved_mib", "bwd_reserved_bytes", &OperatorMeasurement::backward_reserve}};

OperatorMeasurement read_measurement(CsvRow& row) {
  OperatorMeasurement measured;
  measured.forward_us = row.number("fwd_us", 0, kMaxUs);
  measured.backward_us = row.number("bwd_us", 0, kMaxUs);
  for (const SizeColumns& one : kSizes) measured.*one.size = read_size(row, one.mib, one.bytes);
  return measured;
}

// Of a setting.
struct ShapeColumn {
  const char* name;
  std::int64_t TransformerSizes::*size;
};
constexpr ShapeColumn kShape[] = {
    {"seq_len", &TransformerSizes::sequence}, {"decoder_seq_len", &TransformerSizes::decoder_sequence},
    {"hidden", &TransformerSizes::hidden},    {"ffn_hidden", &TransformerSizes::ffn_hidden},
    {"heads", &TransformerSizes::heads},      {"kv_channels", &TransformerSizes::head_channels},
    {"vocab", &TransformerSizes::vocabulary}};

std::int64_t integer_or_0(CsvRow& row, std::string_view column) {
  return row.empty(column) ? 0 : row.integer(column, 1, kMaxBytes);
}

// "1 2 4 8".
std::vector<std::int32_t> read_microbatches(CsvRow& row) {
  std::vector<std::int32_t> values;
  std::string_view text = row.cell("microbatch_values");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const auto value = parse_number<std::int32_t>(text.substr(0, end));
    if (!value || *value < 1 || (!values.empty() && *value <= values.back())) {
      row.fail("microbatch_values", "rising positive integers with a space between two");
      return {};
    }
    values.push_back(*value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (values.empty()) row.fail("microbatch_values", "at least one positive integer");
  return values;
}

constexpr IntegerLimits kRepeats{1, 200000, "a number of repeats between 1 and 200000"};
constexpr std::int64_t kMaxOperators = 200000;  // more would not fit into a model document

// "gpt/1_3B".
void read_name(const std::string& name, const JsonReader& in, OperatorList& list) {
  const std::size_t slash = name.find('/');
  list.model = name.substr(0, slash);
  list.size = slash == std::string::npos ? "" : name.substr(slash + 1);
  if (!fit_for_a_file_name(list.model) || !fit_for_a_file_name(list.size))
    in.refuse("expected a member called MODEL/SIZE");
}

OperatorList read_list(const std::string& name, const JsonReader& in) {
  OperatorList list;
  read_name(name, in, list);
  list.profile_model = in.at("profile_model").text();
  list.profile_size = in.at("profile_size").text();
  std::int64_t count = 0;
  in.at("blocks").each_required([&](const JsonReader& block) {
    OperatorBlock read{block.at("repeat").integer32(kRepeats), block.at("ops").texts()};
    if (read.operators.empty()) block.at("ops").fail("an array of at least one name");
    count += std::int64_t{read.repeat} * static_cast<std::int64_t>(read.operators.size());
    if (count > kMaxOperators) block.fail("at most 200000 operators in all blocks");
    list.blocks.push_back(std::move(read));
  });
  const JsonReader total = in.at("num_ops");
  if (const std::int64_t said = total.integer(kNonNegative); !in.failed() && said != count) {
    total.fail("the number of operators of all blocks, which is " + std::to_string(count));
  }
  return list;
}

Result<std::vector<OperatorRow>> read_operator_rows(const std::string& directory) {
  std::vector<std::string_view> columns{"db", "model", "size",    "dtype",  "microbatch_samples",
                                        "tp", "algo",  "op_name", "fwd_us", "bwd_us"};
  for (const SizeColumns& one : kSizes) columns.emplace_back(one.mib);
  for (const SizeColumns& one : kSizes) columns.emplace_back(one.bytes);
  std::vector<OperatorRow> rows;
  Once<std::tuple<ProfileName, std::string, std::int32_t, std::int32_t, bool>> once;
  TRIMTAB_TRY_STATUS(each_row(directory, "operators.csv", columns, [&](CsvRow& in) {
    OperatorRow row;
    row.profile = read_profile(in);
    row.dtype = read_dtype(in);
    row.op = in.name("op_name");
    row.samples = in.integer32("microbatch_samples", 1);
    row.tp = in.integer32("tp", 1);
    row.alternate = in.flag("algo");
    row.measured = read_measurement(in);
    once.check(in, {row.profile, row.op, row.samples, row.tp, row.alternate});
    rows.push_back(std::move(row));
  }));
  return rows;
}

Result<std::vector<CollectiveRow>> read_collective_rows(const std::string& directory) {
  static const std::vector<std::string_view> kColumns{
      "db", "model", "size", "dtype", "primitive", "group_size", "topology", "key_mib", "bytes", "us", "measured"};
  std::vector<CollectiveRow> rows;
  Once<std::tuple<ProfileName, std::string, std::int32_t, Bytes>> once;
  TRIMTAB_TRY_STATUS(each_row(directory, "collectives.csv", kColumns, [&](CsvRow& in) {
    CollectiveRow row;
    row.profile = read_profile(in);
    row.dtype = read_dtype(in);
    static_cast<void>(in.choice("primitive", {"all_gather", "all_to_all", "all_reduce", "reduce_scatter"}));
    row.primitive = std::string(in.cell("primitive"));
    row.group_size = in.integer32("group_size", 2);
    static_cast<void>(in.choice("topology", {"intra-node"}));
    const std::int64_t key = in.integer("key_mib", 0, kMaxBytes >> 20);
    row.bytes = in.integer("bytes", 0, kMaxBytes);
    // The key is the size in MiB, rounded half to even.
    if (!in.failed() && std::llrint(static_cast<double>(row.bytes) / kMib) != key) {
      in.fail("bytes", "a size that rounds to key_mib = " + std::to_string(key) + " MiB");
    }
    row.measured = in.flag("measured");
    if (row.measured) row.us = in.number("us", 0, kMaxUs);
    if (!row.measured && !in.empty("us")) in.fail("us", "nothing in a row that was not measured");
    once.check(in, {row.profile, row.primitive, row.group_size, row.bytes});
    rows.push_back(std::move(row));
  }));
  return rows;
}

Result<std::vector<TransferRow>> read_transfer_rows(const std::string& directory) {
  static const std::vector<std::string_view> kColumns{"db", "link", "bytes", "gib_per_s", "us"};
  std::vector<TransferRow> rows;
  Once<std::tuple<std::string, bool, Bytes>> once;
  TRIMTAB_TRY_STATUS(each_row(directory, "p2p.csv", kColumns, [&](CsvRow& in) {
    TransferRow row;
    row.database = in.name("db");
    row.inter_node = in.choice("link", {"intra-node", "inter-node"}) == 1;
    row.bytes = in.integer("bytes", 1, kMaxBytes);
    row.gib_per_s = in.number("gib_per_s", 0.000001, 1e6);
    const double us = in.number("us", 0, kMaxUs);
    const double expected = static_cast<double>(row.bytes) / (row.gib_per_s * kGib) * 1e6;
    constexpr double kRounding = 0.0501;  // of one decimal
    if (!in.failed() && std::fabs(us - expected) > kRounding + 1e-6 * expected) {
      in.fail("us", "bytes / gib_per_s, which is " + std::to_string(expected));
    }
    once.check(in, {row.database, row.inter_node, row.bytes});
    rows.push_back(std::move(row));
  }));
  return rows;
}

Result<std::vector<Setting>> read_settings(const std::string& directory) {
  std::vector<std::string_view> columns{"model", "size"};
  for (const ShapeColumn& one : kShape) columns.emplace_back(one.name);
  for (const char* const name :
       {"dtype", "num_ops", "nodes", "gpus_per_node", "global_batch_samples", "microbatch_values", "memory_limit_mib",
        "main_param_multiple_of_weight", "optimizer_multiple_of_weight"}) {
    columns.emplace_back(name);
  }
  std::vector<Setting> settings;
  Once<std::tuple<std::string, std::string, std::int32_t, std::int32_t, Bytes>> once;
  TRIMTAB_TRY_STATUS(each_row(directory, "models.csv", columns, [&](CsvRow& in) {
    Setting row;
    row.model = in.name("model");
    row.size = in.name("size");
    for (const ShapeColumn& one : kShape) row.*one.size = integer_or_0(in, one.name);
    row.dtype = read_dtype(in);
    row.operators = in.integer32("num_ops", 1);
    row.nodes = static_cast<std::int32_t>(in.integer("nodes", 1, 16384));
    row.devices_per_node = static_cast<std::int32_t>(in.integer("gpus_per_node", 1, 65536));
    row.global_batch = in.integer32("global_batch_samples", 1);
    row.microbatches = read_microbatches(in);
    row.memory_limit = in.integer("memory_limit_mib", 1, kMaxBytes >> 20) << 20;
    row.main_parameter_multiple = in.number("main_param_multiple_of_weight", 0, 100);
    row.optimizer_multiple = in.number("optimizer_multiple_of_weight", 0, 100);
    once.check(in, {row.model, row.size, row.nodes, row.devices_per_node, row.memory_limit});
    settings.push_back(std::move(row));
  }));
  return settings;
}

Result<std::vector<OperatorList>> read_operator_lists(const std::string& directory) {
  TRIMTAB_TRY(const TextFile file, read_text_file(directory, "op_lists.json"));
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(file.text, file.path, ""));
  std::vector<OperatorList> lists;
  document.root().each_member(
      [&](const std::string& name, const JsonReader& in) { lists.push_back(read_list(name, in)); });
  TRIMTAB_TRY_STATUS(document.status());
  if (lists.empty()) return bad_input(file.path + ": expected at least one list of operators");
  return lists;
}

}  // namespace

Result<AcesoTables> read_aceso_tables(const std::string& directory) {
  AcesoTables tables;
  TRIMTAB_TRY(tables.settings, read_settings(directory));
  TRIMTAB_TRY(tables.lists, read_operator_lists(directory));
  TRIMTAB_TRY(tables.transfers, read_transfer_rows(directory));
  TRIMTAB_TRY(tables.collectives, read_collective_rows(directory));
  TRIMTAB_TRY(tables.operators, read_operator_rows(directory));
  return tables;
}

bool holds_neutral_aceso_tables(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](std::string_view name) {
    if (name.ends_with(".gz")) name.remove_suffix(3);
    return name == "operators.csv" || name == "collectives.csv" || name == "models.csv" || name == "op_lists.json";
  });
}

}  // namespace trimtab::published
