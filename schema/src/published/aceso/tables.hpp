#pragma once

// Aceso's profiles, row for row as they stand: from the folders of its profiler, or from its published V100 profile in
// neutral form, whose files are checked against each other, too. Source: Liu et al., "Aceso: Efficient Parallel DNN
// Training through Iterative Bottleneck Alleviation", EuroSys'24, and its artifact.

#include <compare>

#include "schema/published.hpp"

namespace trimtab::published {

// Which profile run a row belongs to: "eurosys", "gpt", "1_3B".
struct ProfileName {
  std::string database;
  std::string model;
  std::string size;

  auto operator<=>(const ProfileName&) const = default;
};

// What was measured of one operator. Sizes are those of a GPU, for all samples of the row.
struct OperatorMeasurement {
  double forward_us = 0;
  double backward_us = 0;
  Bytes input = 0;
  Bytes output = 0;
  Bytes parameters = 0;
  Bytes stored = 0;
  Bytes forward_reserve = 0;
  Bytes backward_reserve = 0;

  auto operator<=>(const OperatorMeasurement&) const = default;
};

struct OperatorRow {
  ProfileName profile;
  std::string dtype;  // as in documents: "float16", "float32"
  std::string op;
  std::int32_t samples = 1;  // per replica
  std::int32_t tp = 1;
  bool alternate = false;  // split along the second choice
  OperatorMeasurement measured;
};

struct CollectiveRow {
  ProfileName profile;
  std::string dtype;
  std::string primitive;
  std::int32_t group_size = 2;
  Bytes bytes = 0;  // per GPU, input
  bool measured = false;
  double us = 0;
};

struct TransferRow {
  std::string database;
  bool inter_node = false;
  Bytes bytes = 0;
  double gib_per_s = 0;
};

// Of a transformer; what a family does not have is 0.
struct TransformerSizes {
  std::int64_t sequence = 0, decoder_sequence = 0, hidden = 0, ffn_hidden = 0, heads = 0, head_channels = 0;
  std::int64_t vocabulary = 0;
};

// A model and where it trains: a setting whose search was published (a row of models.csv), or what was said of a
// profile. Nodes are 0 where the cluster is not known.
struct Setting : TransformerSizes {
  std::string model;
  std::string size;
  std::string dtype;
  std::int32_t operators = 0;
  std::int32_t nodes = 1;
  std::int32_t devices_per_node = 1;
  std::int32_t global_batch = 1;
  std::vector<std::int32_t> microbatches;
  Bytes memory_limit = 0;
  double main_parameter_multiple = 0;  // of the bytes of parameters
  double optimizer_multiple = 0;
};

struct OperatorBlock {
  std::int32_t repeat = 1;
  std::vector<std::string> operators;
};

// The operators of a model, in order, as blocks, and the profile that its costs are read from.
struct OperatorList {
  std::string model;
  std::string size;
  std::string profile_model;
  std::string profile_size;
  std::vector<OperatorBlock> blocks;
};

struct AcesoTables {
  std::vector<OperatorRow> operators;
  std::vector<CollectiveRow> collectives;
  std::vector<TransferRow> transfers;
  std::vector<Setting> settings;
  std::vector<OperatorList> lists;
  std::vector<std::string> own;  // databases that the authors did not publish: somebody ran their profiler
};

// Our neutral tables, and whether a directory with these names holds them.
[[nodiscard]] Result<AcesoTables> read_aceso_tables(const std::string& directory);
[[nodiscard]] bool holds_neutral_aceso_tables(const std::vector<std::string>& names);

// The folders that Aceso's own profiler writes, as published: MODEL_SIZE_mbsM_tpT_algoA.csv for the operators,
// prim_MODEL_SIZE_PRIMITIVE_Ngpus.csv for the collectives, p2p_intra_node.csv and p2p_inter_node.csv for the links, and
// the profiler's caches (*.pkl) for the digits that the tables lack. Source: microsoft/SuperScaler, branch EuroSys24AE,
// profiler/ (what writes them) and search/ (what reads them). Everything that was measured: operators, collectives,
// transfers. Settings and lists of operators are left empty. A directory that has the authors' published link tables is
// called by their testbed, any other by its own name.
[[nodiscard]] Result<AcesoTables> read_aceso_folders(const std::vector<std::string>& directories,
                                                     std::vector<std::string>& remarks);

// Fills in tables.settings and tables.lists for what Aceso's profiler measured. Its tables name a model and a size; the
// layers, the batch and the machines of the authors' own sizes are those that their profiler and search scripts state,
// and of any other size what the caller says. What neither knows stays without documents, and a remark says what to
// say.
void add_aceso_settings(AcesoTables& tables, const ProfileSupplement& supplement, std::vector<std::string>& remarks);

}  // namespace trimtab::published
