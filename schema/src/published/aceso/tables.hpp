#pragma once

// Aceso's profiles, row for row as they stand: from the folders of its profiler, or from its published V100 profile in
// neutral form, whose files are checked against each other, too. Source: Liu et al., "Aceso: Efficient Parallel DNN
// Training through Iterative Bottleneck Alleviation", EuroSys'24, and its artifact.

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"

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

// A model and where it trains: a setting whose search was published (a row of models.csv), or what was said of a
// profile. What a family does not have is 0, and nodes are 0 where the cluster is not known.
struct Setting {
  std::string model;
  std::string size;
  std::int64_t sequence = 0;
  std::int64_t decoder_sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t heads = 0;
  std::int64_t head_channels = 0;
  std::int64_t vocabulary = 0;
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

[[nodiscard]] Result<AcesoTables> read_aceso_tables(const std::string& directory);

}  // namespace trimtab::published
