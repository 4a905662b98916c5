#pragma once

// A stage with memory switches (H3T, Wang et al. 2023): gradients sharded over the replicas, the optimizer on the host.
// Each pass of a microbatch is a run of H3T's segment simulator over the stage's layers, with the stage's own times;
// the microbatches in flight hold what a forward pass leaves behind. The copies of a node's devices share its host
// link. Replicas' collectives run beside those copies where they are faster than the link, else on the same stream. One
// per thread; keeps its buffers.

#include <cstdint>
#include <vector>

#include "h3t_model/layer_switches.hpp"
#include "h3t_model/segment_simulator.hpp"
#include "schema/plan.hpp"
#include "stage_cost.hpp"

namespace trimtab::tuner {

struct SwitchedStage {
  StageTimes times;
  StageBytes bytes;
  double host_bytes = 0;  // of one rank
  bool complete = true;   // no cost is missing
};

// A cost that such a stage uses besides its operators' and that is not measured.
struct SwitchCost {
  Quality quality = Quality::kMissing;
  CostKey key;
  std::string benchmark;
};

class SwitchStage {
 public:
  // `inputs` are the stage's, of one split; `sharers` are the stage's devices on one node. `unmeasured`, where it is
  // asked for, is added to. REQUIRES: switches and recompute of whole layers.
  [[nodiscard]] SwitchedStage price(const CostTable::Tables& tables, const Calibration& calibration,
                                    const StageInputs& inputs, const SplitShape& split, const Switches& switches,
                                    const RecomputeFlags& recompute, std::int32_t sharers,
                                    std::vector<SwitchCost>* unmeasured = nullptr);

 private:
  class Layers;
  std::vector<h3t::LayerProfile> layers_;
  h3t::Switching switching_;
};

// Whether the plan's stage has switches.
[[nodiscard]] inline bool has_switches(const Switches& switches) {
  return switches != Switches{};
}
// How many of a stage's devices share a node, the most of any node.
[[nodiscard]] std::int32_t devices_sharing_node(const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                                                std::int32_t count);
// What one rank may keep on its host: the node's memory shared by its devices, of the stage's nodes the least; 0 =
// unlimited.
[[nodiscard]] double host_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of,
                                const std::int32_t* devices, std::int32_t count);
// The runs of operators of one layer inside of a stage.
[[nodiscard]] std::vector<Range> layers_inside(const Model& model, const Range& operators);

}  // namespace trimtab::tuner
