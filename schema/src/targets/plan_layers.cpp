#include "targets/plan_layers.hpp"

#include <algorithm>

#include "base/numbers.hpp"
#include "documents/plan_names.hpp"

namespace trimtab {

namespace {

bool covered(const std::vector<Range>& ranges, std::int32_t op) {
  return std::ranges::any_of(ranges, [op](const Range& range) { return range.contains(op); });
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

// Kinds of operators that belong to no layer, whatever number of a layer they bear.
bool is_end(const Operator& op) {
  return op.kind == "embedding" || op.kind == "head" || op.kind == "loss" || op.kind == "final_norm";
}

std::vector<Range> runs_of_layers(const Model& model, std::int32_t begin, std::int32_t end) {
  std::vector<Range> runs;
  for (std::int32_t i = begin; i < end; ++i) {
    if (i == begin || model.operators[i].layer != model.operators[i - 1].layer) runs.push_back({i, i});
    runs.back().end = i + 1;
  }
  return runs;
}

std::string kinds_of(const Model& model, const Range& range) {
  std::string kinds;
  for (std::int32_t i = range.begin; i < range.end; ++i) kinds += model.operators[i].kind + " ";
  return kinds;
}

std::string found(std::int64_t value) {
  return ", found " + std::to_string(value);
}

}  // namespace

Result<ModelLayers> layers_of(const Model& model) {
  auto begin = std::int32_t{0};
  auto end = static_cast<std::int32_t>(model.operators.size());
  while (begin < end && is_end(model.operators[begin])) ++begin;
  while (end > begin && is_end(model.operators[end - 1])) --end;
  std::vector<Range> runs = runs_of_layers(model, begin, end);
  if (runs.empty()) return bad_input("model " + model.name + ": has no layers between its embedding and its head");
  std::map<std::string, std::int32_t> counts;
  for (const Range& run : runs) ++counts[kinds_of(model, run)];
  const std::string usual = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; })->first;
  const auto is_layer = [&](const Range& run) { return kinds_of(model, run) == usual; };
  const auto first = std::find_if(runs.begin(), runs.end(), is_layer);
  const auto last = std::find_if(runs.rbegin(), runs.rend(), is_layer).base();
  const auto odd = std::find_if_not(first, last, is_layer);
  if (odd != last) {
    return bad_input("model " + model.name + ": layers must be equal for this target, but operators " +
                     std::to_string(odd->begin) + " to " + std::to_string(odd->end - 1) + " are of kinds " +
                     kinds_of(model, *odd) + "and other layers of " + usual);
  }
  ModelLayers layers;
  layers.layers.assign(first, last);
  layers.before = {0, layers.layers.front().begin};
  layers.after = {layers.layers.back().end, static_cast<std::int32_t>(model.operators.size())};
  return layers;
}

std::string stage_place(std::size_t stage) {
  return "stages[" + std::to_string(stage) + "]";
}

std::string place_of(const OperatorSetting& setting) {
  return stage_place(static_cast<std::size_t>(setting.stage)) + ".segments[" + std::to_string(setting.segment) + "]";
}

void each_segment(const Plan& plan, const std::function<bool(const std::string& place, const Segment&)>& visit) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (std::size_t g = 0; g < plan.stages[s].segments.size(); ++g) {
      const std::string place = stage_place(s) + ".segments[" + std::to_string(g) + "]";
      if (!visit(place, plan.stages[s].segments[g])) return;
    }
  }
}

bool PlanLayers::recomputed(const Range& range) const {
  return range.size() > 0 && std::all_of(operators.begin() + range.begin, operators.begin() + range.end,
                                         [](const OperatorSetting& one) { return one.recompute; });
}

bool PlanLayers::kept(const Range& range) const {
  return std::none_of(operators.begin() + range.begin, operators.begin() + range.end,
                      [](const OperatorSetting& one) { return one.recompute; });
}

std::vector<std::int32_t> PlanLayers::recomputed_layers() const {
  std::vector<std::int32_t> numbers;
  for (std::size_t i = 0; i < parts.layers.size(); ++i) {
    if (recomputed(parts.layers[i])) numbers.push_back(static_cast<std::int32_t>(i));
  }
  return numbers;
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
      complaints.push_back(stage_place(s) + ".devices: ranks are placed in order, so device " +
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
    complaints.push_back(stage_place(s) + ".devices: needs as many as the first stage has, " + std::to_string(first) +
                         found(static_cast<std::int64_t>(count)));
  }
}

void need_one_stage(const PlanLayers& view, Complaints& complaints) {
  if (view.plan->stages.size() == 1) return;
  complaints.push_back("stages: needs one, all devices together" +
                       found(static_cast<std::int64_t>(view.plan->stages.size())));
}

void need_cuts_between_layers(const PlanLayers& view, Complaints& complaints) {
  const auto check = [&](const Range& part, const std::string& what) {
    for (std::int32_t op = part.begin + 1; op < part.end; ++op) {
      if (view.operators[op].stage == view.operators[part.begin].stage) continue;
      complaints.push_back(stage_place(static_cast<std::size_t>(view.operators[op].stage)) +
                           ".segments[0].operators: begins at operator " + std::to_string(op) + ", inside of " + what +
                           "; stages begin between layers");
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
      complaints.push_back(place_of(one) + "." + field + ": needs the same value in the whole job, " +
                           std::to_string(there) + " as in stages[0].segments[0]" + found(here));
      reported = &one;
    };
    differs("dp", one.dp, first.dp);
    differs("tp", one.tp, first.tp);
    differs("cp", one.cp, first.cp);
    differs("sharded_degree", one.sharded_degree, first.sharded_degree);
    if (one.sharded != first.sharded) {
      complaints.push_back(place_of(one) + ".sharded: needs the same value in the whole job, \"" +
                           std::string(name_of(first.sharded, kShardedLevels)) + "\", found \"" +
                           std::string(name_of(one.sharded, kShardedLevels)) + "\"");
      reported = &one;
    }
  }
  const auto apart = std::ranges::find(view.operators, false, &OperatorSetting::tp_consecutive);
  if (apart != view.operators.end()) complaints.push_back(place_of(*apart) + ".tp_consecutive: must be true");
}

void need_sharding_over_all(const PlanLayers& view, Complaints& complaints) {
  const auto apart = std::ranges::find_if(view.operators, [](const OperatorSetting& one) {
    return one.sharded != ShardedLevel::kNone && one.sharded_degree != one.dp;
  });
  if (apart == view.operators.end()) return;
  complaints.push_back(place_of(*apart) + ".sharded_degree: must be dp, " + std::to_string(apart->dp) +
                       found(apart->sharded_degree));
}

void need_no_tensor_parallel(const PlanLayers& view, Complaints& complaints) {
  const auto split =
      std::ranges::find_if(view.operators, [](const OperatorSetting& one) { return one.tp != 1 || one.cp != 1; });
  if (split == view.operators.end()) return;
  if (split->tp != 1) complaints.push_back(place_of(*split) + ".tp: must be 1" + found(split->tp));
  if (split->cp != 1) complaints.push_back(place_of(*split) + ".cp: must be 1" + found(split->cp));
}

void need_whole_microbatches(const PlanLayers& view, Complaints& complaints) {
  const Schedule& schedule = view.plan->schedule;
  if (schedule.sliced_microbatches != 0) {
    complaints.push_back("schedule.sliced_microbatches: must be 0" + found(schedule.sliced_microbatches));
  }
  if (schedule.sub_batches != 1) complaints.push_back("schedule.sub_batches: must be 1" + found(schedule.sub_batches));
  if (schedule.cross_pass) complaints.push_back("schedule.cross_pass: must be false");
  if (schedule.recompute_after_communication) {
    complaints.push_back("schedule.recompute_after_communication: must be false");
  }
}

void need_blocking_transfers(const PlanLayers& view, Complaints& complaints) {
  if (view.plan->stages.size() > 1 && view.plan->schedule.transfers != Transfers::kBlocking) {
    complaints.push_back("schedule.transfers: must be \"blocking\", found \"eager\"");
  }
}

void need_no_alternate_dimension(const PlanLayers& view, Complaints& complaints) {
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    if (segment.alternate_dimension.empty() || segment.tp == 1) return true;
    complaints.push_back(place + ".alternate_dimension: must be empty");
    return false;
  });
}

void need_no_switches(const PlanLayers& view, bool optimizer, Complaints& complaints) {
  const bool all = offloads_optimizer(*view.plan);
  each_segment(*view.plan, [&](const std::string& place, const Segment& segment) {
    for (const auto& [name, ranges] : kSwitchRanges) {
      if ((segment.switches.*ranges).empty()) continue;
      complaints.push_back(place + ".switches." + std::string(name) + ": must be empty");
    }
    const bool complains = segment.switches.offload_optimizer && (!optimizer || !all);
    const char* const wanted = optimizer ? "the same in every segment" : "false";
    if (complains) complaints.push_back(place + ".switches.offload_optimizer: must be " + wanted);
    return true;
  });
}

void need_no_recompute_outside_layers(const PlanLayers& view, Complaints& complaints) {
  for (const Range& part : {view.parts.before, view.parts.after}) {
    for (std::int32_t op = part.begin; op < part.end; ++op) {
      if (!view.operators[op].recompute) continue;
      complaints.push_back(place_of(view.operators[op]) + ".recompute: operator " + std::to_string(op) + " (" +
                           view.model->operators[op].name +
                           ") is part of no layer, and layers alone can be recomputed");
      return;
    }
  }
}

void need_whole_layers_recomputed(const PlanLayers& view, Complaints& complaints) {
  need_no_recompute_outside_layers(view, complaints);
  for (std::size_t i = 0; i < view.parts.layers.size(); ++i) {
    const Range& layer = view.parts.layers[i];
    if (view.recomputed(layer) || view.kept(layer)) continue;
    complaints.push_back(place_of(view.first_of(layer)) + ".recompute: layer " + std::to_string(i) + " (operators " +
                         std::to_string(layer.begin) + " to " + std::to_string(layer.end - 1) +
                         ") can be recomputed as a whole or not at all");
    return;
  }
}

void need_known_knobs(const PlanLayers& view, const std::vector<std::string>& known, Complaints& complaints) {
  for (const auto& [name, value] : view.plan->target_knobs) {
    if (std::ranges::count(known, name) == 0)
      complaints.push_back("target_knobs." + name + ": is not known to this target");
  }
}

std::int32_t pipeline_groups(const Plan& plan) {
  std::int32_t size = 1;
  while (size < std::ssize(plan.stages) && plan.stages[size].devices.front() != plan.stages.front().devices.front()) {
    ++size;
  }
  return size;
}

void need_equal_rounds(const PlanLayers& view, Complaints& complaints) {
  const std::int32_t groups = pipeline_groups(*view.plan);
  const auto stages = static_cast<std::int32_t>(view.plan->stages.size());
  const bool interleaved = view.plan->schedule.kind == ScheduleKind::kInterleaved;
  if (interleaved && stages == groups)
    complaints.push_back("schedule.kind: \"interleaved\" needs devices with several stages");
  if (stages % groups != 0) {
    complaints.push_back("stages: needs the same number for every device, found " + std::to_string(stages) + " over " +
                         std::to_string(groups) + " groups of devices");
  }
  if (interleaved && groups < 2)
    complaints.push_back("schedule.kind: \"interleaved\" needs two groups of devices or more");
}

bool offloads_optimizer(const Plan& plan) {
  bool all = true;
  each_segment(plan,
               [&all](const std::string&, const Segment& segment) { return all = segment.switches.offload_optimizer; });
  return all;
}

bool flag_knob(const PlanLayers& view, const std::string& name, Complaints& complaints) {
  const auto knob = view.plan->target_knobs.find(name);
  if (knob == view.plan->target_knobs.end() || knob->second == "false") return false;
  if (knob->second != "true")
    complaints.push_back("target_knobs." + name + ": needs true or false, found " + knob->second);
  return knob->second == "true";
}

std::int64_t bytes_knob(const PlanLayers& view, const std::string& name, Complaints& complaints) {
  const auto knob = view.plan->target_knobs.find(name);
  if (knob == view.plan->target_knobs.end()) return 0;
  const auto bytes = parse_number<std::int64_t>(knob->second);
  if (bytes && *bytes > 0) return *bytes;
  complaints.push_back("target_knobs." + name + ": needs a positive integer of bytes, found " + knob->second);
  return 0;
}

std::int64_t bucket_elements(const PlanLayers& view, Complaints& complaints) {
  const std::int64_t bytes = bytes_knob(view, kBucketKnob, complaints);
  const std::int64_t width = element_bytes(*view.model);
  if (bytes == 0) return 0;
  if (width > 0 && bytes % width == 0) return bytes / width;
  complaints.push_back("target_knobs.bucket_bytes: must be whole elements of " + view.model->dtype + found(bytes));
  return 0;
}

}  // namespace trimtab
