#pragma once

// The measured numbers behind the galvatron cost models, in their units: ms, MiB, ms per MiB. Plain values, built once.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/result.hpp"
#include "schema/cluster.hpp"
#include "schema/cost.hpp"
#include "schema/model.hpp"

namespace trimtab::tuner::galvatron {

inline constexpr double kMiB = 1048576.0;

// What was measured of one kind of layer, per sample.
struct LayerType {
  std::string cost_key;
  bool decoder = false;  // attends twice: three reductions in a pass where others have two
  double forward_ms = 0;
  double parameter_mib = 0;                 // model states are four times this
  double boundary_mib = 0;                  // output, in the model's type
  double sequence_hidden = 0;               // elements of the output
  std::map<std::int32_t, double> kept_mib;  // by tensor-parallel ranks
  double recomputed_mib = 0;                // kept where the layer is recomputed; 0 = never measured
};

struct Profile {
  std::vector<LayerType> types;
  std::vector<std::int32_t> type_of;  // of each operator
  // ms for a MiB that a rank sends in an all-reduce, by (stages, ranks, neighbours).
  std::map<std::tuple<std::int32_t, std::int32_t, bool>, double> all_reduce;
  std::map<std::int32_t, double> transfer;  // ms per MiB between stages, by their count
  double slowdown = 1;                      // of both, computation beside communication
  double memory_limit_mib = 0;              // of the smallest device
  std::int32_t devices = 1;
  std::int32_t devices_per_node = 1;
  bool half_precision = false;
  GalvatronFacts facts;

  // Of `ranks` neighbours or of ranks with equal strides in one of `stages` equal stages. 0 for one rank; negative
  // where nobody measured it.
  [[nodiscard]] double reduce_ms_per_mib(std::int32_t stages, std::int32_t ranks, bool neighbours) const;
};

// Fails where layers or links were not measured, or the cluster is not a power of two of equal devices.
[[nodiscard]] Result<Profile> profile_from_costs(const Model& model, const Cluster& cluster,
                                                 const std::vector<Cost>& costs);

}  // namespace trimtab::tuner::galvatron
