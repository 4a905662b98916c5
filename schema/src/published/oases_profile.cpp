#include "published/oases_profile.hpp"

#include <map>
#include <tuple>

#include "published/csv_table.hpp"

namespace trimtab::published {
namespace {

constexpr std::int64_t kMostHidden = 1 << 20;
constexpr std::int64_t kMostRanks = 65536;
constexpr std::int64_t kMostSamples = 1 << 20;
constexpr double kLeast = 1e-6;
constexpr double kMostMs = 1e9;
constexpr double kMostMib = 1e9;

struct Column {
  const char* name;
  double OasesRow::*value;
  double most;
};

constexpr Column kMeasured[] = {{"attn_fwd_ms", &OasesRow::attention_forward_ms, kMostMs},
                                {"attn_bwd_ms", &OasesRow::attention_backward_ms, kMostMs},
                                {"mlp_fwd_ms", &OasesRow::mlp_forward_ms, kMostMs},
                                {"mlp_bwd_ms", &OasesRow::mlp_backward_ms, kMostMs},
                                {"allreduce_ms", &OasesRow::all_reduce_ms, kMostMs},
                                {"runtime_peak_increase_mib", &OasesRow::runtime_buffer_mib, kMostMib}};

void read_measured(CsvRow& in, OasesRow& row) {
  for (const Column& column : kMeasured) row.*column.value = in.number(column.name, kLeast, column.most);
}

void check_empty(CsvRow& in) {
  for (const Column& column : kMeasured) {
    if (!in.empty(column.name)) in.fail(column.name, "nothing in a row that is not valid");
  }
}

}  // namespace

Result<std::vector<OasesRow>> read_oases_profile(const std::string& directory) {
  TRIMTAB_TRY(TextFile file, read_text_file(directory, kOasesFile));
  std::vector<std::string_view> columns{"hidden_size", "tp_degree", "micro_batch", "valid"};
  for (const Column& column : kMeasured) columns.emplace_back(column.name);
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), std::move(columns)));
  std::vector<OasesRow> rows;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::size_t> lines;
  TRIMTAB_TRY_STATUS(table.each([&](CsvRow& in) {
    OasesRow row;
    row.hidden = static_cast<std::int32_t>(in.integer("hidden_size", 1, kMostHidden));
    row.tp = static_cast<std::int32_t>(in.integer("tp_degree", 1, kMostRanks));
    row.samples = static_cast<std::int32_t>(in.integer("micro_batch", 1, kMostSamples));
    const auto [first, fresh] = lines.emplace(std::tuple(row.hidden, row.tp, row.samples), in.line());
    if (!fresh) in.refuse("the same row stands in line " + std::to_string(first->second));
    const bool valid = in.choice("valid", {"0", "1"}) == 1;
    if (!valid) return check_empty(in);
    read_measured(in, row);
    rows.push_back(row);
  }));
  if (rows.empty()) return bad_input(table.path() + ": expected at least one row with valid = 1, found none");
  return rows;
}

}  // namespace trimtab::published
