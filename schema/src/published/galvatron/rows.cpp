#include <array>
#include <functional>
#include <set>
#include <tuple>

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

// Reads DIRECTORY/NAME row by row.
Status each_row(const std::string& directory, const std::string& name, std::vector<std::string_view> columns,
                const std::function<void(CsvRow&)>& visit) {
  TRIMTAB_TRY(TextFile file, read_text_file(directory, name));
  TRIMTAB_TRY(const CsvTable table, CsvTable::open(std::move(file), std::move(columns)));
  return table.each(visit);
}

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
    value.consecutive = row.choice("consecutive_ranks", {"0", "1"}) == 1;
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

void read_activations(CsvRow& row, int degrees, double* activation) {
  for (int i = 0; i < degrees; ++i)
    activation[i] = number_or_0(row, kDegreeColumns[static_cast<std::size_t>(i)], kMaxMib);
  if (!row.failed() && activation[0] <= 0) row.fail(kDegreeColumns[0], "a number above 0");
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
        value.sequence_parallel = row.choice("megatron_sp", {"0", "1"}) == 1;
        value.sequence = integer_or_0(row, "seq");
        value.parameter_mib = positive(row, "param_MB_fp32", kMaxMib);
        read_activations(row, 4, value.activation_mib);
        value.recomputed_mib = number_or_0(row, "act_MB_per_sample_ckpt", kMaxMib);
        tables.layer_memory.push_back(std::move(value));
      });
}

Status read_end_memory(const std::string& directory, GalvatronTables& tables) {
  return each_row(
      directory, "model_embed_head_memory.csv",
      {"src", "family", "model", "where", "megatron_sp", "seq", "vocab_tp", "model_states_MB",
       "activation_MB_per_sample"},
      [&](CsvRow& row) {
        const std::int32_t source = source_of(row, tables.sources);
        const bool plain = row.choice("megatron_sp", {"0", "1"}) == 0 && row.empty("seq") && row.empty("vocab_tp");
        tables.end_memory.push_back({source, row.name("family"), row.name("model"), row.name("where"), plain,
                                     row.number("model_states_MB", 0, kMaxMib),
                                     row.number("activation_MB_per_sample", 0, kMaxMib)});
      });
}

Status read_paper_layers(const std::string& directory, GalvatronTables& tables) {
  return each_row(directory, "model_v1_paper_profiles.csv",
                  {"src",
                   "model",
                   "layertype",
                   "precision",
                   "seq",
                   "hidden",
                   "forward_ms_per_layer_per_sample",
                   "param_MB",
                   kDegreeColumns[0],
                   kDegreeColumns[1],
                   kDegreeColumns[2],
                   kDegreeColumns[3],
                   kDegreeColumns[4],
                   "other_model_states_MB_8gpu",
                   "other_act_MB_per_sample_8gpu",
                   "other16_pp_off_ms",
                   "other16_pp_off_act",
                   "other16_first_ms",
                   "other16_first_act",
                   "other16_last_ms",
                   "other16_last_act",
                   "extra_overhead_ms"},
                  [&](CsvRow& row) {
                    check_precision(row, "fp32");
                    GalvatronPaperLayer value;
                    value.source = source_of(row, tables.sources);
                    value.model = row.name("model");
                    value.layer_type = row.name("layertype");
                    value.sequence = row.integer("seq", 1, 1 << 24);
                    value.hidden = row.integer("hidden", 1, 1 << 24);
                    value.ms_per_sample = positive(row, "forward_ms_per_layer_per_sample", kMaxMs);
                    value.parameter_mib = positive(row, "param_MB", kMaxMib);
                    read_activations(row, kGalvatronDegrees, value.activation_mib);
                    value.node_states_mib = row.number("other_model_states_MB_8gpu", 0, kMaxMib);
                    value.node_activation_mib = row.number("other_act_MB_per_sample_8gpu", 0, kMaxMib);
                    value.whole_states_mib = row.number("other16_pp_off_ms", 0, kMaxMib);
                    value.whole_activation_mib = row.number("other16_pp_off_act", 0, kMaxMib);
                    value.first_states_mib = row.number("other16_first_ms", 0, kMaxMib);
                    value.first_activation_mib = row.number("other16_first_act", 0, kMaxMib);
                    value.last_states_mib = row.number("other16_last_ms", 0, kMaxMib);
                    value.last_activation_mib = row.number("other16_last_act", 0, kMaxMib);
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

}  // namespace trimtab::published
