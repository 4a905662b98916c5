#pragma once

// A stage with memory switches (H3T, Wang et al. 2023): gradients sharded over the replicas, the optimizer on the host.
// Each pass of a microbatch is a run of H3T's segment simulator over the stage's layers, with the stage's own times,
// each layer as its segment is split; the microbatches in flight hold what a forward pass leaves behind. Where layers
// of different splits meet, nothing else moves while the layout changes. The copies of a node's devices share its host
// link. Replicas' collectives run beside those copies where they are faster than the link, else on the same stream. One
// per thread; keeps its buffers.

#include "native/stage/stage_cost.hpp"
#include "plan/switch_plan.hpp"
#include "solvers/h3t/stage_choice.hpp"

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

// What the switches of a stage are chosen for. Bytes are of one rank; 0 = unlimited.
struct SwitchDemand {
  std::int32_t microbatches = 1;  // of a step: how much its passes count beside its optimizer
  double device_limit = 0;        // the process included
  double host_limit = 0;
  h3t::AllowedSwitches allowed = {h3t::kAllOn};
};

struct ChosenSwitches {
  bool feasible = false;  // else with the least memory
  Switches switches;
  std::vector<Range> recompute;  // normalized
  double step_ms = 0;            // all passes of its microbatches and the optimizer, without a pipeline around them
  double bound_ms = 0;           // no switches with synchronized segments that fit take less; where feasible
};

// What such a stage is priced by. `inputs` are the shape's, whose segments are cut between layers.
struct SwitchableStage {
  const CostTable::Tables& tables;
  const Calibration& calibration;
  const StageInputs& inputs;
  const StageShape& shape;
  std::int32_t sharers = 1;  // devices on one node
};

class SwitchStage {
 public:
  // `unmeasured`, where it is asked for, is added to. REQUIRES: switches and recompute of whole layers.
  [[nodiscard]] SwitchedStage price(const SwitchableStage& of, const Switches& switches,
                                    const RecomputeFlags& recompute, std::vector<SwitchCost>* unmeasured = nullptr);
  // The best switches with synchronized segments, within 1 % of the bound where stop_when() and a limit on the solver's
  // work leave time for it; price() of them is the same simulation. Stages whose layers were asked for before are
  // answered from memory. Nothing where a cost is missing.
  [[nodiscard]] std::optional<ChosenSwitches> choose(const SwitchableStage& of, const SwitchDemand& demand);
  // What the simulations take for the stage's layers, in their order. Nothing where a cost is missing.
  [[nodiscard]] std::optional<std::vector<h3t::LayerProfile>> layers(const SwitchableStage& of);
  // Of all choices (StageSwitches::evaluations).
  [[nodiscard]] std::uint64_t evaluations() const { return choices_.evaluations(); }
  // Asked while choose() searches; true ends that with the best so far.
  void stop_when(std::function<bool()> stop) { choices_.stop_when(std::move(stop)); }

 private:
  class Layers;
  // False where a cost is missing.
  bool set_layers(const SwitchableStage& of, std::vector<SwitchCost>* unmeasured);

  std::vector<Range> ranges_;  // of the layers
  std::vector<h3t::LayerProfile> layers_;
  h3t::Fabric fabric_ = h3t::Fabric::kNvlink;
  h3t::Switching switching_;
  h3t::StageSwitches choices_;
};

// Whether stages may have memory switches that can be priced.
[[nodiscard]] bool prices_switches(const CostTable::Tables& tables, const PlanSpace& space);
// How many devices share a node with one of the stage's, the most of any node: whatever stages they are of, they are
// counted as copying at the same time. `node_of`: by device, node after node.
[[nodiscard]] std::int32_t devices_sharing_node(const std::vector<std::int32_t>& node_of, const std::int32_t* devices,
                                                std::int32_t count);
// What one rank may keep on its host: the node's memory shared by its devices, of the stage's nodes the least; 0 =
// unlimited.
[[nodiscard]] double host_limit(const Cluster& cluster, const std::vector<std::int32_t>& node_of,
                                const std::int32_t* devices, std::int32_t count);

}  // namespace trimtab::tuner
