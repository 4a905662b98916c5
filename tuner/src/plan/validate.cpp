#include "tuner/validate.hpp"

#include <set>

#include "plan/plan_rules.hpp"
#include "plan/plan_space.hpp"
#include "plan/switch_plan.hpp"
#include "solvers/step_graph.hpp"

namespace trimtab::tuner {
namespace {

void check_batch(const Plan& plan, const Model& model, Rules& rules) {
  if (plan.model != model.name) {
    rules.push_back("model: the plan is for '" + plan.model + "', but the model is '" + model.name + "'");
  }
  if (plan.global_batch != model.global_batch) {
    rules.push_back("global_batch: must be the model's, " + std::to_string(model.global_batch) + ", found " +
                    std::to_string(plan.global_batch));
  }
  const std::vector<std::int32_t> allowed = allowed_microbatches(model);
  if (std::ranges::find(allowed, plan.microbatch) == allowed.end()) {
    rules.push_back("microbatch: must be one of " + list_text(allowed) + " (divisors of global_batch " +
                    std::to_string(model.global_batch) + " that the model allows), found " +
                    std::to_string(plan.microbatch));
  }
}

// Slicing fills the pipeline of 1F1B: what a stage runs ahead of its first backward is at most the stages behind it.
void check_slicing(const Plan& plan, Rules& rules) {
  const std::string where = "schedule.sliced_microbatches: ";
  if (plan.schedule.kind != ScheduleKind::k1F1B) rules.push_back(where + "needs the 1f1b schedule");
  const std::int32_t most = std::min(static_cast<std::int32_t>(plan.stages.size()) - 1, plan.microbatches());
  if (plan.schedule.sliced_microbatches > most) {
    rules.push_back(where + "must be at most " + std::to_string(std::max(0, most)) +
                    ", the stages before the last and the microbatches of a step, found " +
                    std::to_string(plan.schedule.sliced_microbatches));
  }
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    if (segment.dp < 1 || plan.microbatch % segment.dp != 0 || plan.microbatch / segment.dp % 2 == 0) return;
    rules.push_back(where + "needs an even number of samples per replica to halve, found " +
                    std::to_string(plan.microbatch / segment.dp) + " in " + segment_text(s, g));
  });
}

void check_sub_batches(const Plan& plan, Rules& rules) {
  const Schedule& schedule = plan.schedule;
  if (schedule.sub_batches < 2) {
    if (schedule.cross_pass) rules.push_back("schedule.cross_pass: needs sub_batches 2 or more");
    if (schedule.recompute_after_communication) {
      rules.push_back("schedule.recompute_after_communication: needs sub_batches 2 or more");
    }
    return;
  }
  const std::string where = "schedule.sub_batches: ";
  if (schedule.sliced_microbatches > 0) rules.push_back(where + "must be 1 where microbatches are sliced");
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    if (segment.dp < 1 || plan.microbatch % segment.dp != 0) return;
    const std::int32_t samples = plan.microbatch / segment.dp;
    if (samples % schedule.sub_batches == 0) return;
    rules.push_back(where + "must divide the samples of a replica, found " + std::to_string(schedule.sub_batches) +
                    " and " + std::to_string(samples) + " samples in " + segment_text(s, g));
  });
}

void check_schedule(const Plan& plan, Rules& rules) {
  const Schedule& schedule = plan.schedule;
  if (schedule.sub_batches < 1) {
    rules.push_back("schedule.sub_batches: must be 1 or more, found " + std::to_string(schedule.sub_batches));
  }
  if (plan.microbatch > 0 && schedule.sliced_microbatches > 0) check_slicing(plan, rules);
  if (plan.microbatch > 0) check_sub_batches(plan, rules);
}

// Stages go round groups of devices; groups of as many microbatches go round with them.
void check_interleaving(const Plan& plan, Rules& rules) {
  if (plan.schedule.kind != ScheduleKind::kInterleaved) return;
  const std::int32_t seats = seats_of(plan);
  const auto stages = static_cast<std::int32_t>(plan.stages.size());
  if (seats == stages)
    rules.push_back("stages: the interleaved schedule needs two stages or more on each group of devices");
  if (stages % seats != 0) {
    rules.push_back("stages: the interleaved schedule needs as many stages on each group of devices, found " +
                    std::to_string(stages) + " on " + std::to_string(seats));
  }
  for (std::int32_t s = seats; s < stages; ++s) {
    if (plan.stages[s].devices == plan.stages[s % seats].devices) continue;
    rules.push_back(stage_text(s) + ".devices: must be those of " + stage_text(s % seats) +
                    ": interleaved stages go round the same groups of devices");
  }
  std::set<std::int32_t> taken;
  for (std::int32_t s = 0; s < std::min(seats, stages); ++s) {
    for (const std::int32_t device : plan.stages[s].devices) {
      if (taken.insert(device).second) continue;
      rules.push_back(stage_text(s) + ".devices: device " + std::to_string(device) +
                      " belongs to another group already");
    }
  }
  if (plan.microbatch > 0 && plan.microbatches() % seats != 0) {
    rules.push_back("microbatch: the interleaved schedule needs a multiple of its " + std::to_string(seats) +
                    " groups of devices as microbatches of a step, found " + std::to_string(plan.microbatches()));
  }
  if (plan.microbatch > 0 && forwards_of(plan) > kMostGraphForwards) {
    rules.push_back(
        "microbatch: the interleaved schedule is priced forward by forward, stages times microbatches at most " +
        std::to_string(kMostGraphForwards) + ", found " + std::to_string(forwards_of(plan)) +
        "; use larger microbatches");
  }
}

void check_devices(const Plan& plan, const Cluster& cluster, Rules& rules) {
  const std::int32_t there = cluster.devices();
  constexpr std::size_t kNobody = -1;
  std::vector<std::size_t> taken_by(static_cast<std::size_t>(there), kNobody);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<std::int32_t>& devices = plan.stages[s].devices;
    if (devices.empty()) rules.push_back(stage_text(s) + ".devices: needs at least one device");
    for (const std::int32_t device : devices) {
      const auto broken = [&](const std::string& how) {
        rules.push_back(stage_text(s) + ".devices: device " + std::to_string(device) + how);
      };
      if (device < 0 || device >= there) {
        broken(" does not exist, the cluster has devices 0 to " + std::to_string(there - 1));
        continue;
      }
      const std::size_t before = std::exchange(taken_by[device], s);
      if (before == s) broken(" is listed twice");
      if (before == kNobody || before == s || plan.schedule.kind == ScheduleKind::kInterleaved) continue;
      broken(" belongs to an earlier stage already");
    }
  }
}

void check_cover(const Plan& plan, const Model& model, Rules& rules) {
  const auto operators = static_cast<std::int32_t>(model.operators.size());
  std::int32_t next = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Segment>& segments = plan.stages[s].segments;
    if (segments.empty()) rules.push_back(stage_text(s) + ".segments: needs at least one segment");
    for (std::size_t g = 0; g < segments.size(); ++g) {
      const Range range = segments[g].operators;
      if (range.begin != next) {
        rules.push_back(segment_text(s, g) + ".operators: must begin at " + operator_text(model, next) +
                        ", where the one before ends, found " + std::to_string(range.begin));
      }
      if (range.end <= range.begin || range.end > operators) {
        rules.push_back(segment_text(s, g) + ".operators: must end after " + std::to_string(range.begin) +
                        " and at most at " + std::to_string(operators) + ", found " + std::to_string(range.end));
      }
      const bool inside = range.begin > 0 && range.begin < operators;
      if (g == 0 && s > 0 && inside && !model.operators[range.begin].cut_before) {
        rules.push_back(stage_text(s) + ": must not begin with " + operator_text(model, range.begin) +
                        ", the model does not allow a cut before it");
      }
      next = range.end;
    }
  }
  if (next != operators) {
    rules.push_back("stages: cover operators 0 to " + std::to_string(next) + ", but the model has " +
                    std::to_string(operators));
  }
}

void check_sharding(const Segment& segment, const std::string& where, Rules& rules) {
  if (segment.sharded_degree < 0 || (segment.sharded_degree > 0 && segment.dp % segment.sharded_degree != 0)) {
    rules.push_back(where + ".sharded_degree: must divide dp " + std::to_string(segment.dp) + ", found " +
                    std::to_string(segment.sharded_degree));
  }
  if (segment.sharded == ShardedLevel::kNone) return;
  if (segment.dp < 2) rules.push_back(where + ".sharded: needs 2 replicas or more to shard over, found dp 1");
  if (segment.dp > 1 && segment.sharded_degree == 1) {
    rules.push_back(where + ".sharded_degree: must be 2 or more, or 0 for all of dp " + std::to_string(segment.dp) +
                    ", found 1");
  }
}

void check_degrees(const Plan& plan, const Model& model, std::size_t s, std::size_t g, Rules& rules) {
  const Segment& segment = plan.stages[s].segments[g];
  const std::string where = segment_text(s, g);
  if (segment.dp < 1 || segment.tp < 1 || segment.cp < 1) {
    rules.push_back(where + ": dp, tp and cp must be 1 or more");
    return;
  }
  const auto devices = static_cast<std::int64_t>(plan.stages[s].devices.size());
  const std::int64_t product = static_cast<std::int64_t>(segment.dp) * segment.tp * segment.cp;
  if (product != devices) {
    rules.push_back(where + ": dp * tp * cp must be the stage's " + std::to_string(devices) + " devices, found " +
                    std::to_string(segment.dp) + " * " + std::to_string(segment.tp) + " * " +
                    std::to_string(segment.cp));
  }
  if (plan.microbatch % segment.dp != 0) {
    rules.push_back(where + ".dp: must divide microbatch " + std::to_string(plan.microbatch) + ", found " +
                    std::to_string(segment.dp));
  } else if (!divides_well(model, plan.microbatch, segment.dp)) {
    rules.push_back(where + ".dp: leaves " + std::to_string(plan.microbatch / segment.dp) +
                    " samples per replica, but the model allows " + list_text(model.microbatch_per_replica));
  }
  check_sharding(segment, where, rules);
}

void check_ranges(const std::vector<Range>& ranges, const Range& inside, const std::string& where, Rules& rules) {
  std::int32_t next = inside.begin;
  for (const Range& range : ranges) {
    if (range.begin < next || range.end <= range.begin || range.end > inside.end) {
      rules.push_back(where + ": ranges must be ascending, disjoint and inside [" + std::to_string(inside.begin) +
                      ", " + std::to_string(inside.end) + "), found [" + std::to_string(range.begin) + ", " +
                      std::to_string(range.end) + ")");
      return;
    }
    next = range.end;
  }
}

// In the order in which messages name them.
std::array<h3t::SwitchField, 6> switch_fields() {
  auto fields = h3t::kSwitchFields;
  std::rotate(fields.begin(), fields.begin() + 2, fields.begin() + 3);
  return fields;
}

void check_segment_ranges(const Segment& segment, const Model& model, const std::string& where, Rules& rules) {
  const Range inside = segment.operators;
  check_ranges(segment.recompute, inside, where + ".recompute", rules);
  check_ranges(segment.alternate_dimension, inside, where + ".alternate_dimension", rules);
  for (const Range& range : segment.alternate_dimension) {
    for (std::int32_t i = std::max(range.begin, 0);
         i < range.end && i < static_cast<std::int32_t>(model.operators.size()); ++i) {
      if (model.operators[i].shardings.size() < 2) {
        rules.push_back(where + ".alternate_dimension: " + operator_text(model, i) + " has no second way to be split");
      }
    }
  }
  for (const h3t::SwitchField& field : switch_fields()) {
    check_ranges(segment.switches.*field.of_plan, inside, where + ".switches." + field.name, rules);
  }
}

void check_target_knob(const Plan& plan, const char* knob, const std::array<std::string_view, 2>& values,
                       Rules& rules) {
  const auto found = plan.target_knobs.find(knob);
  if (found == plan.target_knobs.end() || std::ranges::find(values, found->second) != values.end()) return;
  rules.push_back("target_knobs." + std::string(knob) + ": must be " + std::string(values[0]) + " or " +
                  std::string(values[1]) + ", found " + found->second);
}

void check_buckets(const Plan& plan, Rules& rules) {
  const auto found = plan.target_knobs.find(kBucketBytes);
  if (found != plan.target_knobs.end() && bucket_bytes_of(plan) == 0) {
    rules.push_back("target_knobs.bucket_bytes: must be a positive integer of bytes, found " + found->second);
  }
  check_target_knob(plan, kGatherAhead, {"false", "true"}, rules);
  if (!target_says(plan, kGatherAhead, "true")) return;
  if (found == plan.target_knobs.end()) {
    rules.push_back("target_knobs.overlap_parameter_gather: needs target_knobs.bucket_bytes");
  }
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    if (segment.sharded == ShardedLevel::kOptimizer || segment.sharded == ShardedLevel::kGradients) return;
    rules.push_back("target_knobs.overlap_parameter_gather: needs sharded optimizer or gradients, found otherwise in " +
                    segment_text(s, g));
  });
}

// Ranks that share a sample's sequence need equal parts of it.
void check_sequences(const Plan& plan, const Model& model, Rules& rules) {
  check_target_knob(plan, kSequenceParallel, {"false", "true"}, rules);
  const bool parallel = target_says(plan, kSequenceParallel, "true");
  bool splits = false;
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    splits = splits || segment.tp > 1;
    const std::int64_t parts = std::int64_t{segment.cp} * (parallel ? segment.tp : 1);
    const Range& range = segment.operators;
    const auto end = std::min(range.end, static_cast<std::int32_t>(model.operators.size()));
    for (std::int32_t i = std::max(range.begin, 0); i < end && parts > 1; ++i) {
      const auto length = model.operators[i].shape.find("sequence");
      if (length == model.operators[i].shape.end() || length->second % parts == 0) continue;
      rules.push_back(segment_text(s, g) + ": ranks share each sequence in " + std::to_string(parts) +
                      " equal parts (cp" + (parallel ? " * tp" : "") + "), but that of " + operator_text(model, i) +
                      " is " + std::to_string(length->second) + " long");
      break;
    }
  });
  if (parallel && !splits) rules.push_back("target_knobs.sequence_parallel: needs tp above 1 in some segment");
}

void check_whole_layers(const std::vector<Range>& ranges, const std::vector<Range>& layers, const std::string& where,
                        Rules& rules) {
  for (const Range& layer : layers) {
    const std::int32_t count = h3t::covered(ranges, layer);
    if (count == 0 || count == layer.size()) continue;
    rules.push_back(where + ": holds for whole layers where memory switches are on, found a part of operators " +
                    std::to_string(layer.begin) + " to " + std::to_string(layer.end - 1));
    return;
  }
}

// Frameworks put an optimizer on the host whatever else is sharded. H3T's switches of layers know one way alone.
bool offloads_shared_states(const Segment& segment) {
  const bool others = segment.sharded == ShardedLevel::kOptimizer || segment.sharded == ShardedLevel::kParameters;
  Switches alone;
  alone.offload_optimizer = true;
  return others && segment.switches == alone;
}

void check_switched(const Plan& plan, const Model& model, std::size_t s, std::size_t g, Rules& rules) {
  const std::string where = segment_text(s, g);
  const Segment& segment = plan.stages[s].segments[g];
  const Switches& switches = segment.switches;
  if (offloads_shared_states(segment)) return;
  if (!switches.offload_optimizer) {
    rules.push_back(where +
                    ".switches.offload_optimizer: must be true in all segments of a stage with memory switches");
  }
  const bool after_another = g > 0 && segment.operators.begin > 0 && segment.operators.size() > 0;
  if (after_another && !between_layers(model, segment.operators.begin)) {
    rules.push_back(where + ".operators: must begin with a layer where memory switches are on, found " +
                    operator_text(model, segment.operators.begin) + " inside of one");
    return;
  }
  const ShardedLevel level = segment.dp > 1 ? ShardedLevel::kGradients : ShardedLevel::kNone;
  if (segment.sharded != level || (segment.sharded_degree > 0 && segment.sharded_degree != segment.dp)) {
    rules.push_back(where + ".sharded: must be " + (segment.dp > 1 ? "gradients over all replicas" : "none at dp 1") +
                    " where memory switches are on; parameters are sharded by switches.partition_parameters");
  }
  if (!segment.alternate_dimension.empty()) {
    rules.push_back(where + ".alternate_dimension: must be empty where memory switches are on");
  }
  const std::vector<Range> layers = layers_inside(model, segment.operators);
  check_whole_layers(segment.recompute, layers, where + ".recompute", rules);
  for (const h3t::SwitchField& field : switch_fields()) {
    check_whole_layers(switches.*field.of_plan, layers, where + ".switches." + field.name, rules);
  }
  for (const Range& layer : layers) {
    if (h3t::covered(switches.offload_hidden, layer) == 0 || h3t::covered(segment.recompute, layer) > 0) continue;
    rules.push_back(where + ".switches.offload_hidden: needs recompute of " + operator_text(model, layer.begin) +
                    " too");
    return;
  }
}

// What memory switches ask of a plan.
void check_switches(const Plan& plan, const Model& model, Rules& rules) {
  bool any = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Segment>& segments = plan.stages[s].segments;
    const bool switched =
        std::ranges::any_of(segments, [](const Segment& segment) { return has_switches(segment.switches); });
    any = any || switched;
    const bool inside = std::ranges::all_of(segments, [&](const Segment& segment) {
      const auto operators = static_cast<std::int32_t>(model.operators.size());
      return segment.operators.begin >= 0 && segment.operators.end <= operators;
    });
    for (std::size_t g = 0; g < segments.size() && switched && inside; ++g) check_switched(plan, model, s, g, rules);
  }
  if (any && (plan.schedule.sub_batches > 1 || plan.schedule.sliced_microbatches > 0)) {
    rules.push_back("schedule: must run whole microbatches where memory switches are on");
  }
}

}  // namespace

std::vector<std::string> validate(const Plan& plan, const Model& model, const Cluster& cluster) {
  Rules rules;
  check_batch(plan, model, rules);
  if (plan.stages.empty()) rules.push_back("stages: needs at least one stage");
  check_schedule(plan, rules);
  check_devices(plan, cluster, rules);
  check_interleaving(plan, rules);
  check_cover(plan, model, rules);
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    check_degrees(plan, model, s, g, rules);
    check_segment_ranges(segment, model, segment_text(s, g), rules);
  });
  check_switches(plan, model, rules);
  check_target_knob(plan, kTransfersMeet, {"false", "true"}, rules);
  if (target_says(plan, kTransfersMeet, "true") && plan.schedule.transfers == Transfers::kEager) {
    rules.push_back("target_knobs.transfers_meet: needs schedule.transfers blocking");
  }
  check_target_knob(plan, kParameterPrefetch, {"true", "false"}, rules);
  check_target_knob(plan, kGradientAccumulation, {"\"sharded\"", "\"whole\""}, rules);
  check_buckets(plan, rules);
  check_sequences(plan, model, rules);
  return rules;
}

}  // namespace trimtab::tuner
