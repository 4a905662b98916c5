#include "targets/plan_stages.hpp"

namespace trimtab {

namespace {

constexpr std::int64_t kMostPlaces = 1 << 24;  // ranks of all stages, each time that they are named

std::vector<Segment> segments_of(const Range& operators, const std::function<OperatorPlan(std::int32_t op)>& plan_of) {
  std::vector<Segment> segments;
  for (std::int32_t op = operators.begin; op < operators.end; ++op) {
    OperatorPlan here = plan_of(op);
    if (!segments.empty()) {
      // Compared without its ranges.
      here.like.operators = segments.back().operators;
      here.like.recompute = segments.back().recompute;
    }
    if (segments.empty() || !(here.like == segments.back())) {
      here.like.operators = {op, op};
      here.like.recompute.clear();
      segments.push_back(here.like);
    }
    segments.back().operators.end = op + 1;
    if (here.recompute) segments.back().recompute.push_back({op, op + 1});
  }
  for (Segment& segment : segments) segment.recompute = normalized(std::move(segment.recompute));
  return segments;
}

std::vector<std::int32_t> devices_of(std::int32_t group, std::int32_t size) {
  std::vector<std::int32_t> devices;
  for (std::int32_t i = 0; i < size; ++i) devices.push_back(group * size + i);
  return devices;
}

}  // namespace

Result<std::vector<Stage>> plan_stages(const Model& model, const ModelLayers& parts, const StageCounts& counts,
                                       const std::function<OperatorPlan(std::int32_t op)>& plan_of,
                                       const std::string& option) {
  const auto layers = static_cast<std::int32_t>(parts.layers.size());
  if (std::ssize(counts.layers) * std::int64_t{counts.group_size} > kMostPlaces) {
    return bad_input(option + ": its stages name more than " + std::to_string(kMostPlaces) + " ranks together");
  }
  std::vector<Stage> stages;
  std::int32_t layer = 0;
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < counts.layers.size(); ++i) {
    layer += counts.layers[i];
    const bool last = i + 1 == counts.layers.size();
    std::int32_t end = layer < layers ? parts.layers[static_cast<std::size_t>(layer)].begin : parts.layers.back().end;
    if (last) end = static_cast<std::int32_t>(model.operators.size());
    if (end <= begin) return bad_input(option + ": stage " + std::to_string(i) + " would have no operator");
    const std::int32_t group = static_cast<std::int32_t>(i) % counts.groups;
    stages.push_back({devices_of(group, counts.group_size), segments_of({begin, end}, plan_of)});
    begin = end;
  }
  return stages;
}

Status check_import(const Plan& plan, const Model& model, std::string_view target, const std::string& framework) {
  TRIMTAB_TRY(const std::vector<std::string> complaints, unhonoured(plan, model, target));
  if (complaints.empty()) return {};
  std::string list;
  for (const std::string& complaint : complaints) list += (list.empty() ? "" : "; ") + complaint;
  return bad_input(framework + " does not run the plan that this says: " + list);
}

}  // namespace trimtab
