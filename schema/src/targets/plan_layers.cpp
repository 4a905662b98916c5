#include "targets/plan_layers.hpp"

#include <algorithm>
#include <charconv>

#include "documents/plan_names.hpp"

namespace trimtab {

namespace {

bool covered(const std::vector<Range>& ranges, std::int32_t op) {
  return std::any_of(ranges.begin(), ranges.end(), [op](const Range& range) { return range.contains(op); });
}

OperatorSetting setting_of(const Segment& segment, std::int32_t stage, std::int32_t index, std::int32_t op) {
  OperatorSetting setting{stage, index, segment.dp, segment.tp, segment.cp};
  const std::int32_t degree = segment.sharded_degree == 0 ? segment.dp : segment.sharded_degree;
  if (segment.sharded != ShardedLevel::kNone && degree > 1) {
    setting.sharded = segment.sharded;
    setting.sharded_degree = degree;
  }
  setting.tp_consecutive = segment.tp_consecutive || segment.tp == 1 || segment.dp * segment.cp == 1;
  setting.recompute = covered(segment.recompute, op);
  return setting;
}

std::string found(std::int64_t value) {
  return ", found " + std::to_string(value);
}

}  // namespace

std::string stage_place(std::int32_t stage) {
  return "stages[" + std::to_string(stage) + "]";
}

std::string segment_place(std::size_t stage, std::size_t segment) {
  return stage_place(static_cast<std::int32_t>(stage)) + ".segments[" + std::to_string(segment) + "]";
}

std::string place_of(const OperatorSetting& setting) {
  return stage_place(setting.stage) + ".segments[" + std::to_string(setting.segment) + "]";
}

bool PlanLayers::recomputed(const Range& range) const {
  return range.size() > 0 && std::all_of(operators.begin() + range.begin, operators.begin() + range.end,
                                         [](const OperatorSetting& one) { return one.recompute; });
}

bool PlanLayers::kept(const Range& range) const {
  return std::none_of(operators.begin() + range.begin, operators.begin() + range.end,
                      [](const OperatorSetting& one) { return one.recompute; });
}

std::vector<std::int32_t> PlanLayers::layers_by_stage() const {
  std::vector<std::int32_t> counts(plan->stages.size(), 0);
  for (const Range& layer : parts.layers) ++counts[first_of(layer).stage];
  return counts;
}

Result<PlanLayers> plan_layers(const Plan& plan, const Model& model) {
  PlanLayers view;
  view.plan = &plan;
  view.model = &model;
  TRIMTAB_TRY(view.parts, layers_of(model));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t g = 0; g < plan.stages[s].segments.size(); ++g) {
      const Segment& segment = plan.stages[s].segments[g];
      for (std::int32_t op = segment.operators.begin; op < segment.operators.end; ++op) {
        view.operators.push_back(setting_of(segment, static_cast<std::int32_t>(s), static_cast<std::int32_t>(g), op));
      }
    }
  }
  if (view.operators.size() == model.operators.size()) return view;
  return bad_input("stages: the plan covers " + std::to_string(view.operators.size()) + " operators, but the model " +
                   model.name + " has " + std::to_string(model.operators.size()));
}

void need_devices_in_order(const PlanLayers& view, bool interleaved, Complaints& complaints) {
  std::int32_t next = 0;
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    const std::vector<std::int32_t>& devices = view.plan->stages[s].devices;
    if (interleaved && devices.front() == 0) next = 0;
    for (const std::int32_t device : devices) {
      if (device == next++) continue;
      complaints.add(stage_place(static_cast<std::int32_t>(s)) + ".devices: ranks are placed in order, so device " +
                     std::to_string(next - 1) + " was expected" + found(device));
      return;
    }
  }
}

void need_equal_stages(const PlanLayers& view, Complaints& complaints) {
  const std::size_t first = view.plan->stages.front().devices.size();
  for (std::size_t s = 1; s < view.plan->stages.size(); ++s) {
    const std::size_t count = view.plan->stages[s].devices.size();
    if (count == first) continue;
    complaints.add(stage_place(static_cast<std::int32_t>(s)) + ".devices: needs as many as the first stage has, " +
                   std::to_string(first) + found(static_cast<std::int64_t>(count)));
  }
}

void need_one_stage(const PlanLayers& view, Complaints& complaints) {
  if (view.plan->stages.size() == 1) return;
  complaints.add("stages: needs one, all devices together" +
                 found(static_cast<std::int64_t>(view.plan->stages.size())));
}

void need_cuts_between_layers(const PlanLayers& view, Complaints& complaints) {
  const auto check = [&](const Range& part, const std::string& what) {
    for (std::int32_t op = part.begin + 1; op < part.end; ++op) {
      if (view.operators[op].stage == view.operators[part.begin].stage) continue;
      complaints.add(stage_place(view.operators[op].stage) + ".segments[0].operators: begins at operator " +
                     std::to_string(op) + ", inside of " + what + "; stages begin between layers");
      return;
    }
  };
  check(view.parts.before, "what stands before the first layer");
  check(view.parts.after, "what stands behind the last layer");
  for (std::size_t i = 0; i < view.parts.layers.size(); ++i) {
    check(view.parts.layers[i], "layer " + std::to_string(i));
  }
}

void need_one_split(const PlanLayers& view, Complaints& complaints) {
  const OperatorSetting& first = view.operators.front();
  const OperatorSetting* reported = nullptr;
  for (const OperatorSetting& one : view.operators) {
    if (reported != nullptr && reported->stage == one.stage && reported->segment == one.segment) continue;
    const auto differs = [&](const char* field, std::int64_t here, std::int64_t there) {
      if (here == there) return;
      complaints.add(place_of(one) + "." + field + ": needs the same value in the whole job, " + std::to_string(there) +
                     " as in stages[0].segments[0]" + found(here));
      reported = &one;
    };
    differs("dp", one.dp, first.dp);
    differs("tp", one.tp, first.tp);
    differs("cp", one.cp, first.cp);
    differs("sharded_degree", one.sharded_degree, first.sharded_degree);
    if (one.sharded != first.sharded) {
      complaints.add(place_of(one) + ".sharded: needs the same value in the whole job, \"" +
                     std::string(name_of(first.sharded, kShardedLevels)) + "\", found \"" +
                     std::string(name_of(one.sharded, kShardedLevels)) + "\"");
      reported = &one;
    }
  }
  const auto apart = std::find_if(view.operators.begin(), view.operators.end(),
                                  [](const OperatorSetting& one) { return !one.tp_consecutive; });
  if (apart != view.operators.end()) complaints.add(place_of(*apart) + ".tp_consecutive: must be true");
}

void need_sharding_over_all(const PlanLayers& view, Complaints& complaints) {
  const auto apart = std::find_if(view.operators.begin(), view.operators.end(), [](const OperatorSetting& one) {
    return one.sharded != ShardedLevel::kNone && one.sharded_degree != one.dp;
  });
  if (apart == view.operators.end()) return;
  complaints.add(place_of(*apart) + ".sharded_degree: must be dp, " + std::to_string(apart->dp) +
                 found(apart->sharded_degree));
}

void need_no_tensor_parallel(const PlanLayers& view, Complaints& complaints) {
  const auto split = std::find_if(view.operators.begin(), view.operators.end(),
                                  [](const OperatorSetting& one) { return one.tp != 1 || one.cp != 1; });
  if (split == view.operators.end()) return;
  if (split->tp != 1) complaints.add(place_of(*split) + ".tp: must be 1" + found(split->tp));
  if (split->cp != 1) complaints.add(place_of(*split) + ".cp: must be 1" + found(split->cp));
}

void need_whole_microbatches(const PlanLayers& view, Complaints& complaints) {
  const Schedule& schedule = view.plan->schedule;
  if (schedule.sliced_microbatches != 0) {
    complaints.add("schedule.sliced_microbatches: must be 0" + found(schedule.sliced_microbatches));
  }
  if (schedule.sub_batches != 1) complaints.add("schedule.sub_batches: must be 1" + found(schedule.sub_batches));
  if (schedule.cross_pass) complaints.add("schedule.cross_pass: must be false");
  if (schedule.recompute_after_communication) {
    complaints.add("schedule.recompute_after_communication: must be false");
  }
}

void need_blocking_transfers(const PlanLayers& view, Complaints& complaints) {
  if (view.plan->stages.size() > 1 && view.plan->schedule.transfers != Transfers::kBlocking) {
    complaints.add("schedule.transfers: must be \"blocking\", found \"eager\"");
  }
}

void need_no_alternate_dimension(const PlanLayers& view, Complaints& complaints) {
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    for (std::size_t g = 0; g < view.plan->stages[s].segments.size(); ++g) {
      const Segment& segment = view.plan->stages[s].segments[g];
      if (segment.alternate_dimension.empty() || segment.tp == 1) continue;
      complaints.add(segment_place(s, g) + ".alternate_dimension: must be empty");
      return;
    }
  }
}

void need_no_switches(const PlanLayers& view, bool optimizer, Complaints& complaints) {
  const bool all = offloads_optimizer(*view.plan);
  for (std::size_t s = 0; s < view.plan->stages.size(); ++s) {
    for (std::size_t g = 0; g < view.plan->stages[s].segments.size(); ++g) {
      const Switches& switches = view.plan->stages[s].segments[g].switches;
      for (const auto& [name, ranges] : kSwitchRanges) {
        if ((switches.*ranges).empty()) continue;
        complaints.add(segment_place(s, g) + ".switches." + std::string(name) + ": must be empty");
      }
      if (!switches.offload_optimizer) continue;
      const std::string place = segment_place(s, g) + ".switches.offload_optimizer: must be ";
      if (!optimizer) complaints.add(place + "false");
      if (optimizer && !all) complaints.add(place + "the same in every segment");
    }
  }
}

void need_no_recompute_outside_layers(const PlanLayers& view, Complaints& complaints) {
  for (const Range& part : {view.parts.before, view.parts.after}) {
    for (std::int32_t op = part.begin; op < part.end; ++op) {
      if (!view.operators[op].recompute) continue;
      complaints.add(place_of(view.operators[op]) + ".recompute: operator " + std::to_string(op) + " (" +
                     view.model->operators[op].name + ") is part of no layer, and layers alone can be recomputed");
      return;
    }
  }
}

void need_whole_layers_recomputed(const PlanLayers& view, Complaints& complaints) {
  need_no_recompute_outside_layers(view, complaints);
  for (std::size_t i = 0; i < view.parts.layers.size(); ++i) {
    const Range& layer = view.parts.layers[i];
    if (view.recomputed(layer) || view.kept(layer)) continue;
    complaints.add(place_of(view.first_of(layer)) + ".recompute: layer " + std::to_string(i) + " (operators " +
                   std::to_string(layer.begin) + " to " + std::to_string(layer.end - 1) +
                   ") can be recomputed as a whole or not at all");
    return;
  }
}

void need_known_knobs(const PlanLayers& view, const std::vector<std::string>& known, Complaints& complaints) {
  for (const auto& [name, value] : view.plan->target_knobs) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      complaints.add("target_knobs." + name + ": is not known to this target");
    }
  }
}

bool offloads_optimizer(const Plan& plan) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [](const Stage& stage) {
    return std::all_of(stage.segments.begin(), stage.segments.end(),
                       [](const Segment& segment) { return segment.switches.offload_optimizer; });
  });
}

bool flag_knob(const PlanLayers& view, const std::string& name, Complaints& complaints) {
  const auto knob = view.plan->target_knobs.find(name);
  if (knob == view.plan->target_knobs.end() || knob->second == "false") return false;
  if (knob->second != "true") complaints.add("target_knobs." + name + ": needs true or false, found " + knob->second);
  return knob->second == "true";
}

std::int64_t bytes_knob(const PlanLayers& view, const std::string& name, Complaints& complaints) {
  const auto knob = view.plan->target_knobs.find(name);
  if (knob == view.plan->target_knobs.end()) return 0;
  std::int64_t bytes = 0;
  const char* const end = knob->second.data() + knob->second.size();
  const auto read = std::from_chars(knob->second.data(), end, bytes);
  if (read.ec == std::errc() && read.ptr == end && bytes > 0) return bytes;
  complaints.add("target_knobs." + name + ": needs a positive integer of bytes, found " + knob->second);
  return 0;
}

std::int64_t bucket_elements(const PlanLayers& view, Complaints& complaints) {
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, complaints);
  const std::int64_t width = element_bytes(*view.model);
  if (bytes == 0) return 0;
  if (width > 0 && bytes % width == 0) return bytes / width;
  complaints.add("target_knobs.bucket_bytes: must be whole elements of " + view.model->dtype + found(bytes));
  return 0;
}

std::int64_t element_bytes(const Model& model) {
  if (model.dtype == "float32") return 4;
  if (model.dtype == "float16" || model.dtype == "bfloat16") return 2;
  return 0;
}

}  // namespace trimtab
