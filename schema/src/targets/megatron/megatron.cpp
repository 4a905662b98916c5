// Megatron-LM: arguments of megatron/training/arguments.py. Ranks are placed tensor-parallel first, then context-,
// data- and pipeline-parallel (its order "tp-cp-ep-dp-pp"), as a plan's consecutive devices are.

#include <algorithm>
#include <numeric>

#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

constexpr const char* kGatherAhead = "overlap_parameter_gather";
constexpr const char* kConnections = "CUDA_DEVICE_MAX_CONNECTIONS";

// What --recompute-* can say.
struct Recompute {
  enum class Kind { kNone, kAll, kFirst, kMlp, kOther } kind = Kind::kNone;
  std::int32_t layers = 0;  // of kFirst
};

bool mlp_alone(const PlanLayers& view) {
  bool any = false;
  for (const Range& layer : view.parts.layers) {
    for (std::int32_t op = layer.begin; op < layer.end; ++op) {
      const bool mlp = is_mlp(view.model->operators[op]);
      if (view.operators[op].recompute != mlp) return false;
      any = any || mlp;
    }
  }
  return any;
}

// The first so many layers of each stage, or all where it has fewer; none where it is otherwise.
std::optional<std::int32_t> first_layers(const PlanLayers& view) {
  std::vector<std::int32_t> recomputed(view.plan->stages.size(), 0);
  std::vector<bool> ended(view.plan->stages.size(), false);
  for (const Range& layer : view.parts.layers) {
    const auto stage = static_cast<std::size_t>(view.first_of(layer).stage);
    if (view.recomputed(layer)) {
      if (ended[stage]) return std::nullopt;
      ++recomputed[stage];
    } else {
      if (!view.kept(layer)) return std::nullopt;
      ended[stage] = true;
    }
  }
  const std::int32_t most = *std::max_element(recomputed.begin(), recomputed.end());
  const std::vector<std::int32_t> layers = view.layers_by_stage();
  for (std::size_t s = 0; s < layers.size(); ++s) {
    if (recomputed[s] != std::min(most, layers[s])) return std::nullopt;
  }
  return most;
}

Recompute recompute_of(const PlanLayers& view) {
  const std::vector<Range>& layers = view.parts.layers;
  if (std::ranges::all_of(layers, [&](const Range& layer) { return view.kept(layer); })) return {};
  const bool all = std::ranges::all_of(layers, [&](const Range& layer) { return view.recomputed(layer); });
  if (all) return {Recompute::Kind::kAll};
  if (const auto first = first_layers(view)) return {Recompute::Kind::kFirst, *first};
  return {mlp_alone(view) ? Recompute::Kind::kMlp : Recompute::Kind::kOther};
}

void check_schedule(const PlanLayers& view, Complaints& complaints) {
  const Plan& plan = *view.plan;
  const std::int32_t size = pipeline_groups(plan);
  if (plan.schedule.kind == ScheduleKind::kGPipe) complaints.push_back("schedule.kind: must not be \"gpipe\"");
  need_equal_rounds(view, complaints);
  if (plan.schedule.kind != ScheduleKind::kInterleaved || plan.microbatches() % size == 0) return;
  complaints.push_back("microbatch: an interleaved pipeline of " + std::to_string(size) +
                       " needs a multiple of that in microbatches, found " + std::to_string(plan.microbatches()));
}

void check_sharding(const PlanLayers& view, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  if (first.sharded == ShardedLevel::kNone || first.sharded == ShardedLevel::kOptimizer) return;
  if (view.plan->stages.size() > 1) {
    complaints.push_back(place_of(first) +
                         ".sharded: gradients and parameters can be sharded in one stage alone, found " +
                         std::to_string(view.plan->stages.size()) + " stages");
  }
  need_sharding_over_all(view, complaints);
}

// Under causal masks every context-parallel rank has one part from either end of the sequence.
void check_sequences(const PlanLayers& view, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  Complaints none;
  const std::int64_t tensor = flag_knob(view, kSequenceKnob, none) ? first.tp : 1;
  const std::int64_t parts = first.cp > 1 ? first.cp * std::lcm(std::int64_t{2}, tensor) : tensor;
  for (const Operator& op : view.model->operators) {
    const auto length = op.shape.find("sequence");
    if (length == op.shape.end() || length->second % parts == 0) continue;
    complaints.push_back((first.cp > 1 ? place_of(first) + ".cp" : std::string("target_knobs.") + kSequenceKnob) +
                         ": needs a sequence of a multiple of " + std::to_string(parts) + ", found " +
                         std::to_string(length->second));
    return;
  }
}

void check_knobs(const PlanLayers& view, Complaints& complaints) {
  need_known_knobs(view, {kBucketKnob, kGatherAhead, kSequenceKnob}, complaints);
  if (flag_knob(view, kSequenceKnob, complaints) && view.operators.front().tp == 1) {
    complaints.push_back("target_knobs.sequence_parallel: needs tp above 1");
  }
  const std::int64_t elements = bucket_elements(view, complaints);
  if (flag_knob(view, kGatherAhead, complaints)) {
    if (elements == 0) complaints.push_back("target_knobs.overlap_parameter_gather: needs target_knobs.bucket_bytes");
    if (view.operators.front().sharded != ShardedLevel::kOptimizer) {
      complaints.push_back("target_knobs.overlap_parameter_gather: needs sharded \"optimizer\"");
    }
  }
  const OperatorSetting& first = view.operators.front();
  if (offloads_optimizer(*view.plan) && first.dp > 1 && first.sharded != ShardedLevel::kOptimizer) {
    complaints.push_back("stages[0].segments[0].switches.offload_optimizer: needs sharded \"optimizer\"");
  }
}

void check(const PlanLayers& view, Complaints& complaints) {
  need_devices_in_order(view, view.plan->schedule.kind == ScheduleKind::kInterleaved, complaints);
  need_equal_stages(view, complaints);
  need_cuts_between_layers(view, complaints);
  need_one_split(view, complaints);
  need_whole_microbatches(view, complaints);
  need_blocking_transfers(view, complaints);
  need_no_alternate_dimension(view, complaints);
  need_no_switches(view, true, complaints);
  need_no_recompute_outside_layers(view, complaints);
  check_schedule(view, complaints);
  check_sharding(view, complaints);
  check_knobs(view, complaints);
  check_sequences(view, complaints);
  if (recompute_of(view).kind == Recompute::Kind::kOther) {
    complaints.push_back(
        "segments.recompute: must be no layer, every layer, the first layers of each stage (as many in each), or the "
        "mlp of every layer");
  }
}

// "Ett|tt|ttL": E the embedding, t a layer, L the loss.
std::string layout(const PlanLayers& view) {
  std::string text = "E";
  const std::vector<std::int32_t> layers = view.layers_by_stage();
  for (std::size_t s = 0; s < layers.size(); ++s) {
    text += (s > 0 ? "|" : "") + std::string(static_cast<std::size_t>(layers[s]), 't');
  }
  return text + "L";
}

bool is_even(const PlanLayers& view) {
  const std::vector<std::int32_t> layers = view.layers_by_stage();
  return std::ranges::count(layers, layers.front()) == std::ssize(layers);
}

using Arguments = std::vector<std::string>;

void add(Arguments& out, const std::string& name, std::int64_t value) {
  out.push_back(name);
  out.push_back(std::to_string(value));
}

void add_pipeline(const PlanLayers& view, Arguments& out) {
  const std::int32_t size = pipeline_groups(*view.plan);
  add(out, "--pipeline-model-parallel-size", size);
  const bool interleaved = view.plan->schedule.kind == ScheduleKind::kInterleaved;
  if (size > 1 && (interleaved || !is_even(view))) {
    out.insert(out.end(), {"--pipeline-model-parallel-layout", layout(view)});
  }
}

void add_sharding(const PlanLayers& view, Arguments& out) {
  const OperatorSetting& first = view.operators.front();
  const bool none = first.sharded == ShardedLevel::kNone;
  // On one rank, too, Megatron-LM offloads what its distributed optimizer has alone.
  if (!none || offloads_optimizer(*view.plan)) out.emplace_back("--use-distributed-optimizer");
  if (none) return;
  if (first.sharded == ShardedLevel::kOptimizer) {
    const std::int32_t instances = first.dp / first.sharded_degree;
    if (instances > 1) add(out, "--num-distributed-optimizer-instances", instances);
    return;
  }
  const bool parameters = first.sharded == ShardedLevel::kParameters;
  out.insert(out.end(), {"--use-megatron-fsdp", "--data-parallel-sharding-strategy",
                         parameters ? "optim_grads_params" : "optim_grads", "--ckpt-format", "fsdp_dtensor"});
}

void add_recompute(const Recompute& recompute, Arguments& out) {
  switch (recompute.kind) {
    case Recompute::Kind::kAll:
      out.insert(out.end(), {"--recompute-granularity", "full", "--recompute-method", "uniform"});
      return add(out, "--recompute-num-layers", 1);
    case Recompute::Kind::kFirst:
      out.insert(out.end(), {"--recompute-granularity", "full", "--recompute-method", "block"});
      return add(out, "--recompute-num-layers", recompute.layers);
    case Recompute::Kind::kMlp:
      out.insert(out.end(), {"--recompute-granularity", "selective", "--recompute-modules", "mlp"});
      return;
    default:
      return;
  }
}

// One queue of launches orders what overlaps under tensor and context parallelism; FSDP needs several. Megatron-LM
// asserts both.
std::map<std::string, std::string> environment(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  const bool fsdp = first.sharded == ShardedLevel::kGradients || first.sharded == ShardedLevel::kParameters;
  if (fsdp) return {{kConnections, "8"}};
  if (first.tp > 1 || first.cp > 1) return {{kConnections, "1"}};
  return {};
}

ExportedPlan write(const PlanLayers& view) {
  const OperatorSetting& first = view.operators.front();
  Complaints none;
  Arguments out;
  add(out, "--global-batch-size", view.plan->global_batch);
  add(out, "--micro-batch-size", view.plan->microbatch / first.dp);
  add(out, "--tensor-model-parallel-size", first.tp);
  if (first.cp > 1) add(out, "--context-parallel-size", first.cp);
  add_pipeline(view, out);
  add_sharding(view, out);
  add_recompute(recompute_of(view), out);
  if (offloads_optimizer(*view.plan)) {
    out.insert(out.end(), {"--optimizer-cpu-offload", "--use-precision-aware-optimizer"});
  }
  if (flag_knob(view, kSequenceKnob, none)) out.emplace_back("--sequence-parallel");
  if (const std::int64_t elements = bucket_elements(view, none); elements > 0) {
    out.emplace_back("--overlap-grad-reduce");
    add(out, "--ddp-bucket-size", elements);
    if (flag_knob(view, kGatherAhead, none)) out.emplace_back("--overlap-param-gather");
  }
  return {std::move(out), "", "", environment(view)};
}

}  // namespace

TargetEntry megatron_target() {
  TargetEntry entry;
  entry.name = "megatron";
  entry.knobs = {
      {"global_batch", "--global-batch-size"},
      {"microbatch", "--micro-batch-size, samples of one replica"},
      {"stages",
       "--pipeline-model-parallel-size; uneven: --pipeline-model-parallel-layout. Equal counts of devices in "
       "order, cuts between layers"},
      {"schedule.kind", "1f1b, or interleaved where devices have several stages (the layout says so)"},
      {"segments.tp", "--tensor-model-parallel-size, one for the job"},
      {"segments.cp", "--context-parallel-size, one for the job; 2 * cp divides the sequence"},
      {"segments.dp", "what is left of the ranks"},
      {"segments.sharded",
       "optimizer: --use-distributed-optimizer; gradients, parameters: --use-megatron-fsdp and its "
       "--data-parallel-sharding-strategy, in one stage alone"},
      {"segments.sharded_degree", "of optimizer: --num-distributed-optimizer-instances"},
      {"segments.recompute",
       "--recompute-granularity, -method, -num-layers, -modules: no layer, every layer, the first "
       "layers of each stage, or the mlp of every layer"},
      {"switches.offload_optimizer", "--optimizer-cpu-offload --use-precision-aware-optimizer, with sharded optimizer"},
      {"target_knobs.sequence_parallel", "--sequence-parallel"},
      {"target_knobs.bucket_bytes", "--overlap-grad-reduce --ddp-bucket-size, in elements of the model's dtype"},
      {"target_knobs.overlap_parameter_gather", "--overlap-param-gather, with buckets and sharded optimizer"}};
  TargetLimits& limits = entry.limits;
  limits.pipeline = true;
  limits.tensor_parallel = limits.sharded = limits.recompute = Reach::kJob;
  limits.levels = {ShardedLevel::kNone, ShardedLevel::kOptimizer, ShardedLevel::kGradients, ShardedLevel::kParameters};
  limits.levels_with_pipeline = false;
  limits.partial_shards = limits.sequence_parallel = limits.context_parallel = limits.interleaved = true;
  limits.recompute_first = limits.recompute_mlp = true;
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
