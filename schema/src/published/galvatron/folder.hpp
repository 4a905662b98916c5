#pragma once

// The files that Galvatron's own profilers write, as published: hardware_configs/ (allreduce_bandwidth_*,
// p2p_bandwidth_*, sp_time_*, overlap_coefficient.json) and a model's configs/ (computation_profiling_*,
// memory_profiling_*, and the plans galvatron_config_*, of which only layers, batch and cluster are read). Source:
// PKU-DAIR/Hetu-Galvatron, the profilers that write them and the search that reads them, of all its versions from 2.0
// on.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "published/galvatron/tables.hpp"

namespace trimtab::published {

// "computation_profiling_bf16_llama2-7b_all.json" and its like.
struct GalvatronModelFile {
  std::string precision;  // "bf16", "fp16", "fp32"
  std::string model;      // "llama2-7b": without "_all"
};
// "galvatron_config_llama2-7b_1nodes_8gpus_per_node_36GB_bf16.json".
struct GalvatronPlanFile {
  std::string model;
  GalvatronShape shape;
  std::int32_t gib = 0;
};
// False where the name is not of this form. `prefix`: "allreduce_bandwidth", "computation_profiling".
[[nodiscard]] bool parse_hardware_file(std::string_view name, std::string_view prefix, GalvatronShape& shape);
[[nodiscard]] bool parse_model_file(std::string_view name, std::string_view prefix, GalvatronModelFile& file);
[[nodiscard]] bool parse_plan_file(std::string_view name, GalvatronPlanFile& file);

// "layertype_0_bsz8_seq2048", "layertype_other_bsz8_seq[512,512]".
struct GalvatronTimeKey {
  int kind = -1;  // -1: embedding and head, "other"
  std::int32_t batch = 0;
  std::string sequence;  // "2048", "512-512"; empty = not said
};
[[nodiscard]] bool parse_time_key(std::string_view key, GalvatronTimeKey& parsed);

struct GalvatronTime {
  std::int32_t batch = 0;  // 0: of any
  std::string sequence;
  double ms_per_sample = 0;
};
struct GalvatronSizes {
  bool sequence_parallel = false;
  std::string sequence;
  double parameter_mib = 0;                       // as float32, one rank
  double activation_mib[kGalvatronDegrees] = {};  // per sample; 0 = not there
  double recomputed_mib = 0;
};
struct GalvatronEndSizes {
  std::string where;  // "pp_off", "pp_on_first", "pp_on_last"
  bool sequence_parallel = false;
  std::string sequence;
  double states_mib = 0;  // of one vocabulary rank
  double activation_mib = 0;
};

// What was profiled of one model in one directory.
struct GalvatronProfiled {
  std::string directory;
  std::string precision;
  std::string model;
  std::map<int, std::vector<GalvatronTime>> times;  // by kind of layer; -1: embedding and head
  std::map<int, std::vector<GalvatronSizes>> sizes;
  std::vector<GalvatronEndSizes> ends;
  std::int64_t hidden = 0;  // where the file says it
  std::int32_t layers = 0;  // likewise
};

struct GalvatronPlanned {
  std::string directory;
  GalvatronPlanFile file;
  std::int32_t layers = 0;
  std::int32_t global_batch = 0;
};

struct GalvatronFolders {
  GalvatronTables hardware;  // of the one source 1, whose commit is empty
  std::vector<GalvatronProfiled> models;
  std::vector<GalvatronPlanned> plans;
};

// Whether a directory with these names holds our neutral tables instead.
[[nodiscard]] bool holds_neutral_galvatron_tables(const std::vector<std::string>& names);

[[nodiscard]] Result<GalvatronFolders> read_galvatron_folders(const std::vector<std::string>& directories,
                                                              std::vector<std::string>& remarks);

}  // namespace trimtab::published
