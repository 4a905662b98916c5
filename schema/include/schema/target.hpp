#pragma once

// Targets: the frameworks that execute plans. What each honours of a plan, and a plan as that framework itself reads
// it: arguments of its own parser, or its own configuration file. Pure; any thread.
//
// Names and meanings are those of Megatron-LM's argument parser and layer layout (core_r0.16, August 2026), DeepSpeed's
// configuration (0.16), Galvatron's strategy files (2.4), and PyTorch's DistributedDataParallel and
// FullyShardedDataParallel (1.13 and later), which read no file: theirs is read by client/python/trimtab/parallel.py.
// Those of torchtitan are its configuration's (0.2.2 and 0.3.0).

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "schema/model.hpp"
#include "schema/plan.hpp"

namespace trimtab {

struct Knobs;  // schema/job.hpp

// How freely a target sets a knob.
enum class Reach : std::uint8_t { kNone, kJob, kLayer };

// What a search over a target's plans may vary. Layers are the model's equal blocks (below).
struct TargetLimits {
  bool pipeline = false;  // several stages, on equal counts of devices in order; cuts between layers
  bool sliced = false;    // sliced microbatches
  Reach tensor_parallel = Reach::kNone;
  bool sequence_parallel = false;
  bool context_parallel = false;
  bool interleaved = false;
  bool partial_shards = false;  // over some of the replicas
  Reach sharded = Reach::kNone;
  std::vector<ShardedLevel> levels{ShardedLevel::kNone};
  bool levels_with_pipeline = true;  // gradients and parameters may be sharded where there are several stages
  bool full_pipeline = false;        // as many microbatches as stages, or more
  bool replicas_alone = false;       // replicas that share nothing are in one stage
  Reach recompute = Reach::kNone;    // kJob: all layers or none
  bool recompute_first = false;      // the first N layers of every stage
  bool recompute_nth = false;        // each N-th layer of every stage
  bool recompute_mlp = false;        // the mlp of every layer alone
  bool recompute_sharded = false;    // only where gradients or parameters are sharded
  bool one_sharded_kind = false;     // what is sharded beyond none and parameters is the same in the whole job
  std::int64_t bucket_bytes = 0;     // of plans that do not say; above 0: a search chooses target_knobs.bucket_bytes
  // Ranks change microbatches, recompute and bucket_bytes as they train, and `sharded` between live_levels. What else
  // is sharded stays as it is.
  bool live = false;
  std::vector<ShardedLevel> live_levels = {};
};

struct TargetKnob {
  std::string_view name;     // a field of plan.json: "stages", "segments.tp", "target_knobs.bucket_bytes"
  std::string_view becomes;  // what it is called there, and its limits
};

struct ExportedPlan {
  std::vector<std::string> arguments;  // for the training command; empty where a file says all
  std::string file_name;               // of the configuration; empty where arguments say all
  std::string file_text;
  // What the framework demands with this plan, whatever the job sets.
  std::map<std::string, std::string> environment = {};
  std::string_view environment_when = {};  // " where ..."; empty: always
};

// "trainer", the reference trainer, reads plan.json itself.
[[nodiscard]] std::vector<std::string_view> targets();
// Whether naming it leaves less than the knobs that the job honours: not for "trainer", nor for no name.
[[nodiscard]] bool limits_plans(std::string_view target);
// Whether its ranks change their plan as they train (TargetLimits::live).
[[nodiscard]] bool changes_live(std::string_view target);
// These fail on an unknown target, naming the known ones.
[[nodiscard]] Result<std::vector<TargetKnob>> target_knobs(std::string_view target);
[[nodiscard]] Result<TargetLimits> target_limits(std::string_view target);
// A job's knobs as the target honours them (replicas, where it has nothing else); for one that is not known as they
// are.
[[nodiscard]] Knobs within_target(Knobs knobs, std::string_view target);
// What the plan sets and the target cannot do: each by its place and name, with what was found. Empty = it can.
// REQUIRES: the plan fits the model (tuner/validate.hpp).
[[nodiscard]] Result<std::vector<std::string>> unhonoured(const Plan& plan, const Model& model,
                                                          std::string_view target);
// With what the target does where the plan does not say: PyTorch's size of buckets.
[[nodiscard]] Plan as_run(Plan plan, std::string_view target);
// Fails where something is unhonoured, listing it.
[[nodiscard]] Result<ExportedPlan> export_plan(const Plan& plan, const Model& model, std::string_view target);

// The model as frameworks count it: equal blocks of operators ("layers"), and what stands before and after them.
struct ModelLayers {
  Range before;
  std::vector<Range> layers;  // at least one; all with the same kinds of operators in the same order
  Range after;
};
// Leading and trailing operators that are no whole layer stand apart. Fails where the layers between them differ.
[[nodiscard]] Result<ModelLayers> layers_of(const Model& model);

}  // namespace trimtab
