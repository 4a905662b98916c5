#pragma once

// Which microbatches, data-parallel degrees and cuts a job's plans may use. Plain values, built once; any thread.

#include "schema/cluster.hpp"
#include "schema/job.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"
#include "solvers/h3t/layer_profile.hpp"

namespace trimtab::tuner {

// Divisors of the global batch that the model allows, ascending.
[[nodiscard]] std::vector<std::int32_t> allowed_microbatches(const Model& model);

// Whether `dp` replicas may share a microbatch: a whole number of samples each, of an allowed size.
[[nodiscard]] bool divides_well(const Model& model, std::int32_t microbatch, std::int32_t dp);

// First operators that a stage other than the first may begin with, ascending.
[[nodiscard]] std::vector<std::int32_t> allowed_cuts(const Model& model);

// Begins of stages 1 to stages - 1 that cut the model evenly by count of layers (by operators where there are fewer
// layers than stages), moved to the nearest allowed cut. REQUIRES: 1 <= stages <= allowed_cuts(model).size() + 1.
[[nodiscard]] std::vector<std::int32_t> even_cuts(const Model& model, std::int32_t stages);

// Samples per replica that some plan may use, ascending; and data-parallel degrees that may occur beside `tp` ranks a
// replica.
[[nodiscard]] std::vector<std::int32_t> possible_samples(const Model& model, const std::vector<std::int32_t>& degrees);
[[nodiscard]] std::vector<std::int32_t> possible_degrees(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                                         std::int32_t tp = 1);

// 1, 2, 4, ... up to `most`.
[[nodiscard]] std::vector<std::int32_t> powers_of_two(std::int32_t most);
// Tensor-parallel degrees that a job's plans may have: powers of two inside a node.
[[nodiscard]] std::vector<std::int32_t> tensor_degrees(const Cluster& cluster, const Knobs& knobs);
[[nodiscard]] std::int32_t largest_node(const Cluster& cluster);
// Every sharding level.
[[nodiscard]] std::vector<ShardedLevel> sharding_levels();

// How one segment of a stage uses the stage's devices: dp replicas of tp ranks.
struct Split {
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  ShardedLevel sharded = ShardedLevel::kNone;
  std::int32_t sharded_degree = 0;  // replicas that share one copy of the sharded states; 0 = dp
  bool operator==(const Split&) const = default;
};

// The same with what is sharded where memory switches are on: gradients, over all replicas.
[[nodiscard]] inline Split switchable(Split split) {
  return {split.dp, split.tp, split.dp > 1 ? ShardedLevel::kGradients : ShardedLevel::kNone, 0};
}

// How ranks share the sequence of each sample; one way for a whole plan.
struct SequenceShare {
  std::int32_t cp = 1;    // context parallelism: so many groups of tp ranks, each with its part
  bool parallel = false;  // sequence parallelism: what tensor parallelism leaves whole is shared by its ranks
  bool operator==(const SequenceShare&) const = default;
};

// Microbatches in two sub-batches (Oases), or whole.
struct SubBatches {
  std::int32_t count = 1;
  bool cross_pass = false;
  bool recompute_after_communication = false;
  bool operator==(const SubBatches&) const = default;
};

// What may vary from plan to plan.
struct PlanSpace {
  std::string name = "job";
  Knobs knobs;
  std::int32_t devices = 1;
  std::int32_t operators = 1;
  std::vector<std::int32_t> microbatches;
  std::vector<std::int32_t> cuts;
  std::int32_t stages_min = 1;
  std::int32_t stages_max = 0;                             // below stages_min where no plan uses every device
  std::vector<std::int32_t> tensor_parallel{1};            // degrees
  std::vector<ShardedLevel> sharded{ShardedLevel::kNone};  // levels
  bool replicated_shards = false;                          // over a part of the replicas (Galvatron's DP+SDP mixes)
  bool equal_stages = false;                               // every stage has as many devices
  bool memory_switches = false;                            // of H3T
  h3t::AllowedSwitches switches = {h3t::kAllOn};           // which of them a layer may have on; all of them at once too
  bool mixed_splits = false;                               // segments of one stage may be split in different ways
  bool alternate_dimensions = false;                       // operators may be split along their second choice
  bool sliced_microbatches = false;                        // the warm-up may be sliced
  std::vector<SubBatches> sub_batches{{}};                 // whole microbatches first
  bool derived_recompute = false;                          // by the cost model's rule alone; else free
  // Of all plans. Where cp is above 1 so many devices in a row stand for one: `devices`, and all places and counts of
  // devices in candidates, are of such groups.
  SequenceShare sequence;
  // Of all plans: equal groups of devices, on each as many stages, of one split (interleaved 1F1B).
  bool interleaved = false;
  std::vector<std::int32_t> device_counts;  // of a stage; empty = any
  bool node_boundaries = false;             // no stage lies on two nodes
  std::vector<std::int32_t> node_ends;      // one past the last device of each node

  // Every way to give all devices to `stages` stages, in lexicographic order, that this microbatch allows; at most
  // `limit` of them.
  [[nodiscard]] std::vector<std::vector<std::int32_t>> device_splits(const Model& model, std::int32_t microbatch,
                                                                     std::int32_t stages, std::size_t limit) const;
  // The split whose parts are nearest to equal; empty where there is none.
  [[nodiscard]] std::vector<std::int32_t> even_split(const Model& model, std::int32_t microbatch,
                                                     std::int32_t stages) const;
  // Every way a segment may use `count` devices with this microbatch, most replicas first; empty where there is none.
  [[nodiscard]] std::vector<Split> splits(const Model& model, std::int32_t microbatch, std::int32_t count) const;
  // Whether the space has this split of `count` devices.
  [[nodiscard]] bool allows(const Model& model, std::int32_t microbatch, std::int32_t count, const Split& split) const;
  // Whether a stage may have these devices.
  [[nodiscard]] bool allows_devices(std::int32_t first_device, std::int32_t count) const;

 private:
  // Numbers of devices that a stage may have.
  [[nodiscard]] std::vector<std::int32_t> degrees(const Model& model, std::int32_t microbatch,
                                                  std::int32_t stages) const;
};

// Whole, and in two sub-batches with passes that cross; without crossing nothing is faster.
[[nodiscard]] std::vector<SubBatches> every_sub_batches();

// What a job may change. `fixed_microbatch` is what a job that does not honour the microbatch knob runs with.
[[nodiscard]] PlanSpace plan_space(const Model& model, const Cluster& cluster, const Knobs& knobs,
                                   std::int32_t fixed_microbatch);

// By name: "job"; a paper's name, the space of that paper's published search; "all", everything that the native model
// prices. Fails on another name, naming these.
[[nodiscard]] Result<PlanSpace> named_space(std::string_view name, const Model& model, const Cluster& cluster,
                                            const Knobs& knobs, std::int32_t fixed_microbatch);
[[nodiscard]] std::vector<std::string_view> spaces();

// What holds for whole plans, as the knobs allow: beside a job's space those of other ways for its ranks to share
// sequences, each with one degree of tensor parallelism; and of each of these and of the job's those of interleaved
// plans. A search goes through all of them.
[[nodiscard]] std::vector<PlanSpace> whole_plan_spaces(const Model& model, const PlanSpace& space);

// Takes families of knobs out of a space: what they are worth, or what a target does not honour. Fails on a name that
// is none of them, naming them.
[[nodiscard]] Status leave_out(const std::vector<std::string>& families, PlanSpace& space);

// A space restricted to what a target honours (schema/target.hpp). What holds of a whole plan (one split for the job,
// recompute of the first layers) no space can say: strategy `target` makes such plans alone.

// Fails on an unknown target, and where the model has no equal layers that the target could count.
[[nodiscard]] Status restrict_to_target(const std::string& target, const Model& model, PlanSpace& space);

// The same, restricted to what ranks that train under `running` can change to as they train (TargetLimits::live).
// REQUIRES: a target whose ranks can. Fails on an unknown one.
[[nodiscard]] Status restrict_to_live(const std::string& target, const Plan& running, PlanSpace& space);

}  // namespace trimtab::tuner
