// torchtitan: overrides behind its command. Before 0.3 a configuration is TOML and a policy of recomputation a mode;
// since then a configuration is Python and a policy a subcommand, which must come last (torchtitan/config/manager.py).
// What is refused is what its own checks refuse: torchtitan/trainer.py, distributed/parallel_dims.py and
// distributed/pipeline_parallel.py of 0.3.0, train.py and models/llama3/infra/parallelize.py of 0.2.2.

#include "targets/torchtitan/torchtitan.hpp"

#include <algorithm>

#include "targets/pipelining/pipelining.hpp"

namespace trimtab {

std::vector<bool> every_nth_layer(const std::vector<std::int32_t>& layers, std::int32_t groups, std::int32_t every) {
  std::vector<bool> recomputed;
  std::vector<std::int32_t> seen(static_cast<std::size_t>(groups), 0);
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::int32_t& count = seen[stage % seen.size()];
    for (std::int32_t i = 0; i < layers[stage]; ++i) recomputed.push_back(every > 0 && ++count % every == 0);
  }
  return recomputed;
}

std::optional<std::vector<std::int32_t>> weighted_layers(std::int32_t stages, std::int32_t layers,
                                                         std::int32_t first_less, std::int32_t last_less) {
  if (stages == 1) return std::vector<std::int32_t>{layers};
  const std::int64_t all = std::int64_t{layers} + first_less + last_less;
  const std::int64_t each = all / stages;
  if (each == 0 || first_less > each || last_less > each) return std::nullopt;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(stages), static_cast<std::int32_t>(each));
  for (std::int64_t i = 0; i < all % stages; ++i) ++counts[static_cast<std::size_t>(i)];
  counts.front() -= first_less;
  counts.back() -= last_less;
  return counts;
}

namespace {

enum class Release { kToml, kPython };

// None where it is no such number.
std::optional<std::int32_t> recomputed_every(const PlanLayers& view, Release release) {
  std::vector<bool> recomputed;
  for (const Range& layer : view.parts.layers) recomputed.push_back(view.recomputed(layer));
  const std::vector<std::int32_t> layers = view.layers_by_stage();
  const std::int32_t groups = pipeline_groups(*view.plan);
  // The first one that is recomputed says which.
  std::int32_t every = 0;
  std::vector<std::int32_t> seen(static_cast<std::size_t>(groups), 0);
  for (std::size_t layer = 0; layer < recomputed.size() && every == 0; ++layer) {
    const auto stage = static_cast<std::size_t>(view.first_of(view.parts.layers[layer]).stage);
    const std::int32_t count = ++seen[stage % seen.size()];
    if (recomputed[layer]) every = count;
  }
  const bool sayable = release == Release::kToml || every < 2;
  if (sayable && every_nth_layer(layers, groups, every) == recomputed) return every;
  return std::nullopt;
}

void check_recompute(const PlanLayers& view, Release release, Complaints& complaints) {
  need_whole_layers_recomputed(view, complaints);
  if (recomputed_every(view, release)) return;
  complaints.push_back(std::string("segments.recompute: must be no layer or every layer") +
                       (release == Release::kToml ? ", or each N-th of those that a device has" : ""));
}

void check_sharding(const PlanLayers& view, Release release, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  if (first.sharded == ShardedLevel::kOptimizer) {
    complaints.push_back(place_of(first) + ".sharded: must be none, gradients or parameters, found \"optimizer\"");
  }
  if (first.sharded != ShardedLevel::kNone) return;
  if (first.cp > 1) {
    complaints.push_back(place_of(first) +
                         ".sharded: must be gradients or parameters over two replicas or more, since torchtitan shards "
                         "over context-parallel ranks, too");
  }
  const bool alone = first.tp == 1 && view.plan->stages.size() == 1;
  if (release == Release::kPython || first.dp == 1 || alone) return;
  complaints.push_back(place_of(first) +
                       ".sharded: must be gradients or parameters, since before 0.3 torchtitan has neither tensor "
                       "parallelism nor pipelines with DDP");
}

void check_sequences(const PlanLayers& view, Release release, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  const bool shared = flag_knob(view, kSequenceKnob, complaints);
  if (shared && first.tp == 1) complaints.push_back("target_knobs.sequence_parallel: needs tp above 1");
  if (!shared && first.tp > 1 && release == Release::kToml) {
    complaints.push_back("target_knobs.sequence_parallel: must be true with tp above 1, as it always is before 0.3");
  }
  const std::int64_t halves = first.cp > 1 || release == Release::kToml ? 2 * std::int64_t{first.cp} : 1;
  const std::int64_t parts = (shared ? first.tp : 1) * halves;
  for (const Operator& op : view.model->operators) {
    const auto length = op.shape.find("sequence");
    if (length == op.shape.end() || length->second % parts == 0) continue;
    complaints.push_back(place_of(first) + (first.cp > 1 ? ".cp" : ".tp") + ": needs a sequence of a multiple of " +
                         std::to_string(parts) + ", found " + std::to_string(length->second));
    return;
  }
}

void check(const PlanLayers& view, Release release, Complaints& complaints) {
  need_devices_in_order(view, view.plan->schedule.kind == ScheduleKind::kInterleaved, complaints);
  need_equal_stages(view, complaints);
  need_cuts_between_layers(view, complaints);
  need_one_split(view, complaints);
  need_whole_microbatches(view, complaints);
  need_blocking_transfers(view, complaints);
  need_no_alternate_dimension(view, complaints);
  need_no_switches(view, false, complaints);
  need_known_knobs(view, {kSequenceKnob}, complaints);
  need_torch_pipeline(view, complaints);
  check_sharding(view, release, complaints);
  check_sequences(view, release, complaints);
  check_recompute(view, release, complaints);
}

using Arguments = std::vector<std::string>;

void add(Arguments& out, const std::string& name, const std::string& value) {
  out.push_back("--" + name);
  out.push_back(value);
}

void add(Arguments& out, const std::string& name, std::int64_t value) {
  add(out, name, std::to_string(value));
}

// "tok_embeddings,layers.0 layers.1,norm,lm_head": each stage's modules by name, whatever the configuration has.
void add_modules(const PlanLayers& view, Release release, Arguments& out) {
  out.emplace_back("--parallelism.module_fqns_per_model_part");
  const std::vector<std::int32_t> layers = view.layers_by_stage();
  std::int32_t layer = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    std::string modules = stage == 0 ? "tok_embeddings" : "";
    for (std::int32_t i = 0; i < layers[stage]; ++i) {
      modules += (modules.empty() ? "layers." : ",layers.") + std::to_string(layer++);
    }
    if (stage + 1 == layers.size()) modules += release == Release::kToml ? ",norm,output" : ",norm,lm_head";
    out.push_back(std::move(modules));
  }
}

void add_pipeline(const PlanLayers& view, Release release, Arguments& out) {
  const std::int32_t groups = pipeline_groups(*view.plan);
  add(out, "parallelism.pipeline_parallel_degree", groups);
  if (groups == 1) return;
  add(out, "parallelism.pipeline_parallel_schedule", std::string(torch_schedule(view.plan->schedule.kind)));
  add(out, "parallelism.pipeline_parallel_microbatch_size", view.plan->microbatch / view.operators.front().dp);
  add(out, "parallelism.pipeline_parallel_layers_per_stage", "None");
  add_modules(view, release, out);
  if (release == Release::kPython) out.emplace_back("--training.disable_cuda_graphs");
}

void add_ranks(const PlanLayers& view, Release release, Arguments& out) {
  const OperatorSetting& first = view.operators.front();
  Complaints none;
  add(out, "parallelism.tensor_parallel_degree", first.tp);
  if (first.tp > 1 && release == Release::kPython) {
    const bool shared = flag_knob(view, kSequenceKnob, none);
    out.emplace_back(shared ? "--parallelism.enable_sequence_parallel" : "--parallelism.no-enable_sequence_parallel");
  }
  add(out, "parallelism.context_parallel_degree", first.cp);
  add(out, "parallelism.data_parallel_replicate_degree", first.dp / first.sharded_degree);
  add(out, "parallelism.data_parallel_shard_degree", first.sharded_degree);
  if (first.sharded == ShardedLevel::kNone) return;
  add(out, "parallelism.fsdp_reshard_after_forward", first.sharded == ShardedLevel::kParameters ? "always" : "never");
}

// The last words.
void add_recompute(const PlanLayers& view, Release release, Arguments& out) {
  const std::int32_t every = recomputed_every(view, release).value_or(0);
  const std::string policy = every == 0 ? "none" : every == 1 ? "full" : "selective";
  if (release == Release::kPython) return out.push_back("activation-checkpoint:" + policy);
  add(out, "activation_checkpoint.mode", policy);
  if (every > 1) add(out, "activation_checkpoint.selective_ac_option", every);
}

ExportedPlan write(const PlanLayers& view, Release release) {
  const Plan& plan = *view.plan;
  const std::int32_t dp = view.operators.front().dp;
  Arguments out;
  add(out, "training.global_batch_size", plan.global_batch);
  // In a pipeline it is all that a rank has of a step, cut into microbatches.
  const bool pipeline = pipeline_groups(plan) > 1;
  add(out, "training.local_batch_size", (pipeline ? plan.global_batch : plan.microbatch) / dp);
  out.emplace_back("--training.no-enable_cpu_offload");
  add_pipeline(view, release, out);
  add_ranks(view, release, out);
  add_recompute(view, release, out);
  return {std::move(out), "", ""};
}

// All are literals: an entry keeps views of them.
TargetEntry entry_of(std::string_view name, std::string_view recompute, std::string_view sequence) {
  TargetEntry entry;
  entry.name = name;
  entry.knobs = {
      {"global_batch", "training.global_batch_size"},
      {"microbatch",
       "training.local_batch_size, samples of one replica; in a pipeline "
       "parallelism.pipeline_parallel_microbatch_size"},
      {"stages",
       "parallelism.pipeline_parallel_degree, module_fqns_per_model_part: equal counts of devices in order, cuts "
       "between layers, a layer in each"},
      {"schedule.kind", "parallelism.pipeline_parallel_schedule: 1f1b 1F1B, gpipe GPipe, interleaved Interleaved1F1B"},
      {"segments.tp", "parallelism.tensor_parallel_degree, one for the job"},
      {"segments.cp",
       "parallelism.context_parallel_degree, one for the job, with sharded states; 2 * cp divides the sequence"},
      {"segments.dp", "parallelism.data_parallel_replicate_degree times data_parallel_shard_degree"},
      {"segments.sharded",
       "parallelism.fsdp_reshard_after_forward: parameters always, gradients never; none: replicas alone"},
      {"segments.sharded_degree", "parallelism.data_parallel_shard_degree"},
      {"segments.recompute", recompute},
      {"target_knobs.sequence_parallel", sequence}};
  TargetLimits& limits = entry.limits;
  limits.pipeline = limits.full_pipeline = true;
  limits.sharded = limits.recompute = Reach::kJob;
  limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  limits.partial_shards = limits.context_parallel = limits.interleaved = true;
  return entry;
}

}  // namespace

TargetEntry torchtitan_target() {
  TargetEntry entry = entry_of("torchtitan", "activation-checkpoint:full or :none, every layer or none; the last word",
                               "parallelism.enable_sequence_parallel");
  entry.limits.tensor_parallel = Reach::kJob;
  entry.limits.sequence_parallel = true;
  entry.check = [](const PlanLayers& view, Complaints& complaints) { check(view, Release::kPython, complaints); };
  entry.write = [](const PlanLayers& view) { return write(view, Release::kPython); };
  return entry;
}

// Its tensor parallelism always shares sequences, which no search looks for.
TargetEntry torchtitan_toml_target() {
  TargetEntry entry = entry_of("torchtitan-0.2",
                               "activation_checkpoint.mode: full every layer, none no layer, selective with "
                               "selective_ac_option N each N-th layer of those that a device has",
                               "always so with tp above 1");
  entry.limits.replicas_alone = entry.limits.recompute_nth = true;
  entry.check = [](const PlanLayers& view, Complaints& complaints) { check(view, Release::kToml, complaints); };
  entry.write = [](const PlanLayers& view) { return write(view, Release::kToml); };
  return entry;
}

}  // namespace trimtab
