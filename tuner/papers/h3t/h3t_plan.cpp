#include "papers/h3t/h3t_plan.hpp"

#include <numeric>

#include "papers/answers/answers.hpp"

namespace trimtab::tuner::h3t {
namespace {

void name_cut_layers(const std::vector<Range>& ranges, const std::string& field, const std::vector<Range>& layers,
                     std::vector<std::string>& names) {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int32_t count = covered(ranges, layers[i]);
    if (count == 0 || count == layers[i].size()) continue;
    names.push_back(field + ": a switch holds for whole layers, layer " + std::to_string(i) + " is operators " +
                    std::to_string(layers[i].begin) + " to " + std::to_string(layers[i].end - 1));
  }
}

void name_schedule(const Plan& plan, std::vector<std::string>& names) {
  const Schedule& schedule = plan.schedule;
  if (plan.microbatches() != 1) {
    names.push_back("microbatch: h3t prices one microbatch a step, " + std::to_string(plan.global_batch) +
                    " samples; found " + std::to_string(plan.microbatch));
  }
  papers::name_schedule(schedule, schedule.kind == ScheduleKind::k1F1B, names);
  papers::name_late_recompute(schedule, names);
}

void name_segment(const Segment& segment, const std::vector<Range>& layers, std::vector<std::string>& names) {
  const std::string at = "stages[0].segments[0].";
  if (segment.tp > 1) names.push_back(at + "tp: h3t prices replicas of one rank each");
  if (segment.cp > 1) names.push_back(at + "cp");
  if (!segment.alternate_dimension.empty()) names.push_back(at + "alternate_dimension");
  const ShardedLevel level = segment.dp > 1 ? ShardedLevel::kGradients : ShardedLevel::kNone;
  if (segment.sharded != level) {
    names.push_back(at + "sharded: h3t prices 'gradients', and parameters by switches.partition_parameters");
  }
  if (segment.sharded_degree != 0 && segment.sharded_degree != segment.dp) names.push_back(at + "sharded_degree");
  if (!segment.switches.offload_optimizer) {
    names.push_back(at + "switches.offload_optimizer: h3t prices an optimizer on the host alone");
  }
  name_cut_layers(segment.recompute, at + "recompute", layers, names);
  for (const SwitchField& field : kSwitchFields) {
    name_cut_layers(segment.switches.*field.of_plan, at + "switches." + field.name, layers, names);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool alone =
        covered(segment.switches.offload_hidden, layers[i]) > 0 && covered(segment.recompute, layers[i]) == 0;
    if (alone) names.push_back(at + "switches.offload_hidden: layer " + std::to_string(i) + " needs recompute too");
  }
}

}  // namespace

Plan plan_of(const Model& model, std::int32_t devices, const std::vector<Range>& layers, const Switching& switches) {
  Segment segment;
  segment.operators = {0, static_cast<std::int32_t>(model.operators.size())};
  segment.dp = devices;
  segment.sharded = devices > 1 ? ShardedLevel::kGradients : ShardedLevel::kNone;
  segment.recompute = rematerialized(layers, switches);
  segment.switches = plan_switches(layers, switches);
  Stage stage;
  stage.devices.resize(static_cast<std::size_t>(devices));
  std::iota(stage.devices.begin(), stage.devices.end(), 0);
  stage.segments.push_back(std::move(segment));
  Plan plan;
  plan.model = model.name;
  plan.global_batch = plan.microbatch = model.global_batch;
  plan.stages.push_back(std::move(stage));
  return plan;
}

Switching switching_of(const Plan& plan, const std::vector<Range>& layers) {
  const Segment& segment = plan.stages.front().segments.front();
  return switching_of(segment.switches, segment.recompute, layers);
}

std::vector<std::string> unpriced(const Plan& plan, const std::vector<Range>& layers) {
  std::vector<std::string> names;
  name_schedule(plan, names);
  if (plan.stages.size() != 1 || plan.stages.front().segments.size() != 1) {
    names.emplace_back("stages: h3t prices one stage of one segment over all devices");
    return names;
  }
  name_segment(plan.stages.front().segments.front(), layers, names);
  return names;
}

}  // namespace trimtab::tuner::h3t
