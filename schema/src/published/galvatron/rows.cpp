#include <algorithm>

#include "published/csv_table.hpp"
#include "published/galvatron/tables.hpp"

namespace trimtab::published {

namespace {

constexpr double kMaxMs = 1e9;
constexpr double kMaxMib = 1e9;
constexpr double kMaxRate = 1e6;  // GB/s, ms per MiB
constexpr std::array<const char*, kGalvatronDegrees> kDegreeColumns{"act_MB_per_sample_tp1", "tp2", "tp4", "tp8",
                                                                    "tp16"};
constexpr const char* kVolumeColumn = "ms_per_MB_of_2(n-1)/n_volume";

using Sources = std::map<std::int32_t, GalvatronSource>;

std::int32_t source_of(CsvRow& row, const Sources& sources) {
  const std::int32_t source = row.integer32("src", 1);
  if (!row.failed() && sources.count(source) == 0) row.fail("src", "a source that sources.csv has");
  return source;
}

GalvatronShape shape_of(CsvRow& row) {
  return {row.integer32("nodes", 1), row.integer32("gpus_per_node", 1)};
}

std::int32_t group_of(CsvRow& row, const GalvatronShape& shape) {
  return static_cast<std::int32_t>(row.integer("group_size", 2, std::int64_t{shape.nodes} * shape.devices_per_node));
}

// Above 0.
double positive(CsvRow& row, std::string_view column, double most) {
  const double value = row.number(column, 0, most);
  if (!row.failed() && value <= 0) row.fail(column, "a number above 0");
  return value;
}

double number_or_0(CsvRow& row, std::string_view column, double most) {
  return row.empty(column) ? 0 : row.number(column, 0, most);
}

std::int32_t integer_or_0(CsvRow& row, std::string_view column) {
  return row.empty(column) ? 0 : row.integer32(column, 1);
}

Status read_sources(const std::string& directory, Sources& sources) {
  return each_row(directory, "sources.csv", {"src", "repo", "first_commit", "first_date"}, [&](CsvRow& row) {
    const std::int32_t source = row.integer32("src", 1);
    GalvatronSource value{std::string(row.cell("repo")), row.name("first_commit"), row.name("first_date")};
    if (value.repository.empty()) row.fail("repo", "a repository");
    if (!sources.emplace(source, std::move(value)).second) row.fail("src", "a number of its own");
  });
}

Status read_all_reduces(const std::string& directory, GalvatronTables& tables) {
  const auto add = [&](CsvRow& row, std::int32_t pipeline, double ms_per_mib) {
    GalvatronAllReduce value;
    value.source = source_of(row, tables.sources);
    value.shape = shape_of(row);
    value.pipeline = pipeline;
    value.group_size = group_of(row, value.shape);
    value.consecutive = row.flag("consecutive_ranks");
    value.ms_per_mib = ms_per_mib;
    tables.all_reduces.push_back(value);
  };
  TRIMTAB_TRY_STATUS(each_row(directory, "hw_allreduce_bandwidth.csv",
                              {"src", "nodes", "gpus_per_node", "group_size", "consecutive_ranks", "busbw_GB_per_s"},
                              [&](CsvRow& row) { add(row, 1, 1 / positive(row, "busbw_GB_per_s", kMaxRate)); }));
  return each_row(directory, "hw_v1_allreduce_coefficient.csv",
                  {"src", "nodes", "gpus_per_node", "pp_deg", "group_size", "consecutive_ranks", kVolumeColumn},
                  [&](CsvRow& row) { add(row, row.integer32("pp_deg", 1), positive(row, kVolumeColumn, kMaxRate)); });
}

Status read_transfers(const std::string& directory, GalvatronTables& tables) {
  const auto add = [&](CsvRow& row, const char* pipeline, double ms_per_mib) {
    const std::int32_t source = source_of(row, tables.sources);
    tables.transfers.push_back({source, shape_of(row), row.integer32(pipeline, 2), ms_per_mib});
  };
  TRIMTAB_TRY_STATUS(
      each_row(directory, "hw_p2p_bandwidth.csv", {"src", "nodes", "gpus_per_node", "pp_size", "bandwidth_GB_per_s"},
               [&](CsvRow& row) { add(row, "pp_size", 1 / positive(row, "bandwidth_GB_per_s", kMaxRate)); }));
  return each_row(directory, "hw_v1_p2p_coefficient.csv", {"src", "nodes", "gpus_per_node", "pp_deg", "ms_per_MB"},
                  [&](CsvRow& row) { add(row, "pp_deg", positive(row, "ms_per_MB", kMaxRate)); });
}

Status read_collectives(const std::string& directory, GalvatronTables& tables) {
  return each_row(directory, "hw_collective_time.csv",
                  {"src", "nodes", "gpus_per_node", "op", "group_size", "message_MiB", "time_ms"}, [&](CsvRow& row) {
                    GalvatronCollective value;
                    value.source = source_of(row, tables.sources);
                    value.shape = shape_of(row);
                    value.primitive = row.choice("op", {"allreduce", "all2all"}) == 0 ? "all_reduce" : "all_to_all";
                    value.group_size = group_of(row, value.shape);
                    value.bytes = row.integer("message_MiB", 1, 1 << 20) << 20;
                    value.ms = positive(row, "time_ms", kMaxMs);
                    tables.collectives.push_back(std::move(value));
                  });
}

Status read_overlaps(const std::string& directory, GalvatronTables& tables) {
  return each_row(directory, "hw_overlap_coefficient.csv", {"src", "overlap_slowdown"}, [&](CsvRow& row) {
    tables.overlaps.push_back({source_of(row, tables.sources), row.number("overlap_slowdown", 1, 100)});
  });
}

// The file says float32 or bfloat16 of a model; both are stored as they stand.
void check_precision(CsvRow& row, const char* expected) {
  if (row.cell("precision") != expected) row.fail("precision", expected);
}

// "512"; "[3136/784/196/49]" of several kinds of layers becomes "3136-784-196-49"; "4096_mlp".
std::string sequence_of(CsvRow& row) {
  std::string text(row.cell("seq"));
  const bool several = text.starts_with('[') && text.ends_with(']');
  if (several) text = text.substr(1, text.size() - 2);
  for (char& c : text) {
    const bool slash = several && c == '/';
    const bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';
    if (!slash && !word) row.fail("seq", "a length, perhaps with a name behind it, several as [A/B], or nothing");
    if (slash) c = '-';
  }
  return text;
}

Status read_layer_times(const std::string& directory, GalvatronTables& tables) {
  return each_row(
      directory, "model_layer_time.csv",
      {"src", "family", "precision", "model", "layertype", "batch", "seq", "forward_ms_per_layer_per_sample"},
      [&](CsvRow& row) {
        check_precision(row, "bf16");
        const std::int32_t source = source_of(row, tables.sources);
        // A layer's time is the difference of two models' over their layers: noise makes some negative.
        tables.layer_times.push_back({source, row.name("family"), row.name("model"), row.name("layertype"),
                                      integer_or_0(row, "batch"), sequence_of(row),
                                      row.number("forward_ms_per_layer_per_sample", -kMaxMs, kMaxMs)});
      });
}

GalvatronActivations read_activations(CsvRow& row, std::size_t degrees) {
  GalvatronActivations activation{};
  for (std::size_t i = 0; i < degrees; ++i) activation[i] = number_or_0(row, kDegreeColumns[i], kMaxMib);
  if (!row.failed() && activation[0] <= 0) row.fail(kDegreeColumns[0], "a number above 0");
  return activation;
}

GalvatronEnds read_ends(CsvRow& row, std::string_view states, std::string_view activation) {
  const double states_mib = row.number(states, 0, kMaxMib);
  return {states_mib, row.number(activation, 0, kMaxMib)};
}

Status read_layer_memory(const std::string& directory, GalvatronTables& tables) {
  return each_row(
      directory, "model_layer_memory.csv",
      {"src", "family", "precision", "model", "layertype", "megatron_sp", "seq", "param_MB_fp32", kDegreeColumns[0],
       kDegreeColumns[1], kDegreeColumns[2], kDegreeColumns[3], "act_MB_per_sample_ckpt"},
      [&](CsvRow& row) {
        check_precision(row, "bf16");
        GalvatronLayerMemory value;
        value.source = source_of(row, tables.sources);
        value.family = row.name("family");
        value.model = row.name("model");
        value.layer_type = row.name("layertype");
        value.sequence_parallel = row.flag("megatron_sp");
        value.sequence = integer_or_0(row, "seq");
        value.parameter_mib = positive(row, "param_MB_fp32", kMaxMib);
        value.activation_mib = read_activations(row, 4);
        value.recomputed_mib = number_or_0(row, "act_MB_per_sample_ckpt", kMaxMib);
        tables.layer_memory.push_back(std::move(value));
      });
}

Status read_end_memory(const std::string& directory, GalvatronTables& tables) {
  return each_row(directory, "model_embed_head_memory.csv",
                  {"src", "family", "model", "where", "megatron_sp", "seq", "vocab_tp", "model_states_MB",
                   "activation_MB_per_sample"},
                  [&](CsvRow& row) {
                    const std::int32_t source = source_of(row, tables.sources);
                    const bool plain = !row.flag("megatron_sp") && row.empty("seq") && row.empty("vocab_tp");
                    tables.end_memory.push_back({source, row.name("family"), row.name("model"), row.name("where"),
                                                 plain, read_ends(row, "model_states_MB", "activation_MB_per_sample")});
                  });
}

struct EndColumns {
  std::string_view states, activation;
  GalvatronEnds GalvatronPaperLayer::*ends;
};
constexpr EndColumns kEnds[] = {
    {"other_model_states_MB_8gpu", "other_act_MB_per_sample_8gpu", &GalvatronPaperLayer::node},
    {"other16_pp_off_ms", "other16_pp_off_act", &GalvatronPaperLayer::whole},
    {"other16_first_ms", "other16_first_act", &GalvatronPaperLayer::first},
    {"other16_last_ms", "other16_last_act", &GalvatronPaperLayer::last}};

Status read_paper_layers(const std::string& directory, GalvatronTables& tables) {
  std::vector<std::string_view> columns{
      "src", "model", "layertype", "precision", "seq", "hidden", "forward_ms_per_layer_per_sample", "param_MB"};
  columns.insert(columns.end(), kDegreeColumns.begin(), kDegreeColumns.end());
  for (const EndColumns& one : kEnds) columns.insert(columns.end(), {one.states, one.activation});
  columns.emplace_back("extra_overhead_ms");
  return each_row(directory, "model_v1_paper_profiles.csv", columns, [&](CsvRow& row) {
    check_precision(row, "fp32");
    GalvatronPaperLayer value;
    value.source = source_of(row, tables.sources);
    value.model = row.name("model");
    value.layer_type = row.name("layertype");
    value.sequence = row.integer("seq", 1, 1 << 24);
    value.hidden = row.integer("hidden", 1, 1 << 24);
    value.ms_per_sample = positive(row, "forward_ms_per_layer_per_sample", kMaxMs);
    value.parameter_mib = positive(row, "param_MB", kMaxMib);
    value.activation_mib = read_activations(row, kGalvatronDegrees);
    for (const EndColumns& one : kEnds) value.*one.ends = read_ends(row, one.states, one.activation);
    value.overhead_ms = row.number("extra_overhead_ms", 0, kMaxMs);
    tables.paper_layers.push_back(std::move(value));
  });
}

}  // namespace

Result<GalvatronTables> read_galvatron_tables(const std::string& directory) {
  GalvatronTables tables;
  TRIMTAB_TRY_STATUS(read_sources(directory, tables.sources));
  TRIMTAB_TRY_STATUS(read_all_reduces(directory, tables));
  TRIMTAB_TRY_STATUS(read_transfers(directory, tables));
  TRIMTAB_TRY_STATUS(read_collectives(directory, tables));
  TRIMTAB_TRY_STATUS(read_overlaps(directory, tables));
  TRIMTAB_TRY_STATUS(read_layer_times(directory, tables));
  TRIMTAB_TRY_STATUS(read_layer_memory(directory, tables));
  TRIMTAB_TRY_STATUS(read_end_memory(directory, tables));
  TRIMTAB_TRY_STATUS(read_paper_layers(directory, tables));
  return tables;
}

bool holds_neutral_galvatron_tables(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](std::string_view name) {
    if (name.ends_with(".gz")) name.remove_suffix(3);
    return name == "sources.csv" || (name.ends_with(".csv") && (name.starts_with("hw_") || name.starts_with("model_")));
  });
}

}  // namespace trimtab::published
