#pragma once

// The tables of Galvatron's published profiles in neutral form, row for row as they stand, checked one by one. Source:
// Wang, Jiang, Miao, Fu et al., "Galvatron" (PVLDB 16(3), 2022) and "Improving Automatic Parallel Training via Balanced
// Memory Workload Optimization" (TKDE 2024), and the repositories that `sources` names.

#include <array>
#include <map>

#include "schema/published.hpp"

namespace trimtab::published {

// Where a row comes from: one published version of one file. Rows of one commit were published together.
struct GalvatronSource {
  std::string repository;  // "PKU-DAIR/Hetu-Galvatron"
  std::string commit;
  std::string date;
};

// Devices of a measurement.
struct GalvatronShape {
  std::int32_t nodes = 1;
  std::int32_t devices_per_node = 1;
  auto operator<=>(const GalvatronShape&) const = default;
};

struct GalvatronAllReduce {
  std::int32_t source = 0;
  GalvatronShape shape;
  std::int32_t pipeline = 1;  // stages whose groups ran side by side
  std::int32_t group_size = 2;
  bool consecutive = true;  // ranks that are neighbours; else with equal strides
  double ms_per_mib = 0;    // of the 2(n-1)/n times the bytes that a rank sends
};

struct GalvatronTransfer {
  std::int32_t source = 0;
  GalvatronShape shape;
  std::int32_t pipeline = 2;
  double ms_per_mib = 0;
};

struct GalvatronCollective {
  std::int32_t source = 0;
  GalvatronShape shape;
  std::string primitive;  // as in costs: "all_reduce", "all_to_all"
  std::int32_t group_size = 2;
  std::int64_t bytes = 0;
  double ms = 0;
};

struct GalvatronOverlap {
  std::int32_t source = 0;
  double slowdown = 1;
};

// Forward time of one layer (or of embedding and head together, "other") for one sample.
struct GalvatronLayerTime {
  std::int32_t source = 0;
  std::string family;
  std::string model;
  std::string layer_type;
  std::int32_t batch = 0;  // 0: a line through the origin is what was published
  std::string sequence;    // "512", "512-512" of several kinds of layers; empty: the model's own
  double ms_per_sample = 0;
};

inline constexpr int kGalvatronDegrees = 5;                          // tensor parallelism of 1, 2, 4, 8 and 16 ranks
using GalvatronActivations = std::array<double, kGalvatronDegrees>;  // MiB per sample; 0 = not there

struct GalvatronLayerMemory {
  std::int32_t source = 0;
  std::string family;
  std::string model;
  std::string layer_type;
  bool sequence_parallel = false;
  std::int32_t sequence = 0;
  double parameter_mib = 0;  // as float32, one rank
  GalvatronActivations activation_mib{};
  double recomputed_mib = 0;  // kept per sample where the layer is recomputed
};

// Embedding and head.
struct GalvatronEndMemory {
  std::int32_t source = 0;
  std::string family;
  std::string model;
  std::string where;  // "pp_off", "pp_on_first", "pp_on_last"
  bool plain = true;  // no sequence parallelism, one rank per vocabulary, the model's own sequence
  GalvatronEnds memory;
};

// The models of the paper, as the search scripts of its time state them.
struct GalvatronPaperLayer {
  std::int32_t source = 0;
  std::string model;
  std::string layer_type;  // "enc", "dec", "stage0", ...
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  double ms_per_sample = 0;
  double parameter_mib = 0;
  GalvatronActivations activation_mib{};
  GalvatronEnds node, whole, first, last;  // as in GalvatronFacts
  double overhead_ms = 0;
};

struct GalvatronTables {
  std::map<std::int32_t, GalvatronSource> sources;
  std::vector<GalvatronAllReduce> all_reduces;
  std::vector<GalvatronTransfer> transfers;
  std::vector<GalvatronCollective> collectives;
  std::vector<GalvatronOverlap> overlaps;
  std::vector<GalvatronLayerTime> layer_times;
  std::vector<GalvatronLayerMemory> layer_memory;
  std::vector<GalvatronEndMemory> end_memory;
  std::vector<GalvatronPaperLayer> paper_layers;
};

// Our neutral tables, and whether a directory with these names holds them.
[[nodiscard]] Result<GalvatronTables> read_galvatron_tables(const std::string& directory);
[[nodiscard]] bool holds_neutral_galvatron_tables(const std::vector<std::string>& names);

}  // namespace trimtab::published
