#pragma once

// The files that Galvatron's own profilers write, as published: hardware_configs/ (allreduce_bandwidth_*,
// p2p_bandwidth_*, sp_time_*, overlap_coefficient.json) and a model's configs/ (computation_profiling_*,
// memory_profiling_*, and the plans galvatron_config_*, of which only layers, batch and cluster are read). Source:
// PKU-DAIR/Hetu-Galvatron, the profilers that write them and the search that reads them, of all its versions from 2.0
// on.

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

struct GalvatronTime {
  std::int32_t batch = 0;  // 0: of any
  std::string sequence;
  double ms_per_sample = 0;
};
struct GalvatronSizes {
  bool sequence_parallel = false;
  std::string sequence;
  double parameter_mib = 0;  // as float32, one rank
  GalvatronActivations activation_mib{};
  double recomputed_mib = 0;
};
struct GalvatronEndSizes {
  std::string where;  // "pp_off", "pp_on_first", "pp_on_last"
  bool sequence_parallel = false;
  std::string sequence;
  GalvatronEnds memory;  // of one vocabulary rank
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

[[nodiscard]] Result<GalvatronFolders> read_galvatron_folders(const std::vector<std::string>& directories,
                                                              std::vector<std::string>& remarks);

// Costs and documents from them. A model without a document (its layers, width or batch are said nowhere) still has its
// costs, and a remark says what to say. `remarks`: of what was read.
[[nodiscard]] Result<Published> galvatron_from_folders(const GalvatronFolders& folders,
                                                       const ProfileSupplement& supplement,
                                                       std::vector<std::string> remarks);

}  // namespace trimtab::published
