#include "papers/aceso/plan_parts.hpp"

#include <set>

namespace trimtab::tuner::aceso {
namespace {

struct StageInput {
  std::vector<OperatorSplit> splits;
  std::vector<std::uint8_t> recompute;
};

StageInput input_of(const Tables& tables, std::int32_t microbatch, const Stage& stage) {
  const Range range = stage.operators();
  StageInput input;
  input.recompute.assign(static_cast<std::size_t>(range.size()), 0);
  std::vector<std::uint8_t> alternate(input.recompute.size(), 0);
  for (const Segment& segment : stage.segments) {
    mark(segment.recompute, range.begin, input.recompute);
    mark(segment.alternate_dimension, range.begin, alternate);
    for (std::int32_t op = segment.operators.begin; op < segment.operators.end; ++op) {
      const bool other = alternate[op - range.begin] != 0;
      input.splits.push_back(
          {tables.setting(microbatch / segment.dp, segment.tp, other), segment.dp, segment.tp, other});
    }
  }
  return input;
}

}  // namespace

std::vector<StageParts> plan_parts(const Tables& tables, const Plan& plan) {
  std::vector<StageParts> all;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const StageInput input = input_of(tables, plan.microbatch, stage);
    const Place place{static_cast<std::int32_t>(plan.stages.size() - s), tables.inter_node_input(stage.devices.front()),
                      tables.inter_node_output(stage.devices.back() + 1)};
    all.push_back(stage_parts(tables, stage.operators().begin, input.splits, input.recompute, place));
  }
  return all;
}

std::vector<std::string> unmeasured(const Tables& tables, const Model& model, const Plan& plan) {
  std::set<std::string> names;
  for (const Stage& stage : plan.stages) {
    const StageInput input = input_of(tables, plan.microbatch, stage);
    for (std::size_t i = 0; i < input.splits.size(); ++i) {
      const OperatorSplit& split = input.splits[i];
      const std::int32_t op = stage.operators().begin + static_cast<std::int32_t>(i);
      if (tables.row(split.setting, op).measured) continue;
      names.insert("operator_forward " + model.operators[op].cost_key +
                   " samples=" + std::to_string(plan.microbatch / split.dp) + " tp=" + std::to_string(split.tp) +
                   (split.alternate ? " alternate" : " default"));
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace trimtab::tuner::aceso
