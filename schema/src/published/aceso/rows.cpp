#include "published/aceso/rows.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "published/csv_table.hpp"

namespace trimtab::published {

namespace {

constexpr double kMib = 1048576;
constexpr double kGib = 1073741824;
constexpr double kMaxUs = 1e12;  // 11 days
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 50;

// Refuses a second row of the same key.
template <typename Key>
class Once {
 public:
  void check(CsvRow& row, Key key) {
    const auto [first, fresh] = lines_.emplace(std::move(key), row.line());
    if (!fresh) row.refuse("the same row stands in line " + std::to_string(first->second));
  }

 private:
  std::map<Key, std::size_t> lines_;
};

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

OperatorMeasurement read_measurement(CsvRow& row) {
  OperatorMeasurement measured;
  measured.forward_us = row.number("fwd_us", 0, kMaxUs);
  measured.backward_us = row.number("bwd_us", 0, kMaxUs);
  measured.input = read_size(row, "input_mib", "input_bytes");
  measured.output = read_size(row, "output_mib", "output_bytes");
  measured.parameters = read_size(row, "weight_mib", "weight_bytes");
  measured.stored = read_size(row, "activation_mib", "activation_bytes");
  measured.forward_reserve = read_size(row, "fwd_reserved_mib", "fwd_reserved_bytes");
  measured.backward_reserve = read_size(row, "bwd_reserved_mib", "bwd_reserved_bytes");
  return measured;
}

std::int64_t integer_or_0(CsvRow& row, std::string_view column) {
  return row.empty(column) ? 0 : row.integer(column, 1, kMaxBytes);
}

// "1 2 4 8".
std::vector<std::int32_t> read_microbatches(CsvRow& row) {
  std::vector<std::int32_t> values;
  std::string_view text = row.cell("microbatch_values");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::int32_t value = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + end, value);
    const bool whole = failure == std::errc{} && rest == text.data() + end;
    if (!whole || value < 1 || (!values.empty() && value <= values.back())) {
      row.fail("microbatch_values", "rising positive integers with a space between two");
      return {};
    }
    values.push_back(value);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (values.empty()) row.fail("microbatch_values", "at least one positive integer");
  return values;
}

}  // namespace

Result<std::vector<OperatorRow>> read_operator_rows(const std::string& directory) {
  TRIMTAB_TRY(TextFile file, read_text_file(directory, "operators.csv"));
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), {"db",
                                                                     "model",
                                                                     "size",
                                                                     "dtype",
                                                                     "microbatch_samples",
                                                                     "tp",
                                                                     "algo",
                                                                     "op_name",
                                                                     "fwd_us",
                                                                     "bwd_us",
                                                                     "input_mib",
                                                                     "output_mib",
                                                                     "weight_mib",
                                                                     "activation_mib",
                                                                     "fwd_reserved_mib",
                                                                     "bwd_reserved_mib",
                                                                     "input_bytes",
                                                                     "output_bytes",
                                                                     "weight_bytes",
                                                                     "activation_bytes",
                                                                     "fwd_reserved_bytes",
                                                                     "bwd_reserved_bytes"}));
  std::vector<OperatorRow> rows;
  Once<std::tuple<ProfileName, std::string, std::int32_t, std::int32_t, bool>> once;
  TRIMTAB_TRY_STATUS(table.each([&](CsvRow& in) {
    OperatorRow row;
    row.profile = read_profile(in);
    row.dtype = read_dtype(in);
    row.op = in.name("op_name");
    row.samples = in.integer32("microbatch_samples", 1);
    row.tp = in.integer32("tp", 1);
    row.alternate = in.choice("algo", {"0", "1"}) == 1;
    row.measured = read_measurement(in);
    once.check(in, {row.profile, row.op, row.samples, row.tp, row.alternate});
    rows.push_back(std::move(row));
  }));
  return rows;
}

Result<std::vector<CollectiveRow>> read_collective_rows(const std::string& directory) {
  TRIMTAB_TRY(TextFile file, read_text_file(directory, "collectives.csv"));
  TRIMTAB_TRY(const CsvTable table,
              CsvTable::open(std::move(file), {"db", "model", "size", "dtype", "primitive", "group_size", "topology",
                                               "key_mib", "bytes", "us", "measured"}));
  std::vector<CollectiveRow> rows;
  Once<std::tuple<ProfileName, std::string, std::int32_t, Bytes>> once;
  TRIMTAB_TRY_STATUS(table.each([&](CsvRow& in) {
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
    row.measured = in.choice("measured", {"0", "1"}) == 1;
    if (row.measured) row.us = in.number("us", 0, kMaxUs);
    if (!row.measured && !in.empty("us")) in.fail("us", "nothing in a row that was not measured");
    once.check(in, {row.profile, row.primitive, row.group_size, row.bytes});
    rows.push_back(std::move(row));
  }));
  return rows;
}

Result<std::vector<TransferRow>> read_transfer_rows(const std::string& directory) {
  TRIMTAB_TRY(TextFile file, read_text_file(directory, "p2p.csv"));
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), {"db", "link", "bytes", "gib_per_s", "us"}));
  std::vector<TransferRow> rows;
  Once<std::tuple<std::string, bool, Bytes>> once;
  TRIMTAB_TRY_STATUS(table.each([&](CsvRow& in) {
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
  TRIMTAB_TRY(TextFile file, read_text_file(directory, "models.csv"));
  TRIMTAB_TRY(
      const CsvTable table,
      CsvTable::open(std::move(file), {"model", "size", "seq_len", "decoder_seq_len", "hidden", "ffn_hidden", "heads",
                                       "kv_channels", "vocab", "dtype", "num_ops", "nodes", "gpus_per_node",
                                       "global_batch_samples", "microbatch_values", "memory_limit_mib",
                                       "main_param_multiple_of_weight", "optimizer_multiple_of_weight"}));
  std::vector<Setting> settings;
  Once<std::tuple<std::string, std::string, std::int32_t, std::int32_t, Bytes>> once;
  TRIMTAB_TRY_STATUS(table.each([&](CsvRow& in) {
    Setting row;
    row.model = in.name("model");
    row.size = in.name("size");
    row.sequence = integer_or_0(in, "seq_len");
    row.decoder_sequence = integer_or_0(in, "decoder_seq_len");
    row.hidden = integer_or_0(in, "hidden");
    row.ffn_hidden = integer_or_0(in, "ffn_hidden");
    row.heads = integer_or_0(in, "heads");
    row.head_channels = integer_or_0(in, "kv_channels");
    row.vocabulary = integer_or_0(in, "vocab");
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

}  // namespace trimtab::published
