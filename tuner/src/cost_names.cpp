#include "cost_names.hpp"

#include <algorithm>

#include "plan_rules.hpp"
#include "schema/cost.hpp"

namespace trimtab::tuner {
namespace {

void put(Quality quality, const CostKey& key, const std::string& benchmark, CostNames& names) {
  if (quality == Quality::kMeasured) return;
  const std::string text = describe(key) + " (benchmark: " + benchmark + ")";
  (quality == Quality::kMissing ? names.missing : names.estimated).insert(text);
}

CostKey operator_key(const CostTable::Tables& tables, CostKind kind, std::int32_t group, std::int32_t samples) {
  CostKey key;
  key.kind = kind;
  key.subject = tables.group_names[group];
  key.dtype = tables.model.dtype;
  key.samples = samples;
  return key;
}

void name_group(const CostTable::Tables& tables, std::int32_t group, std::int32_t samples, CostNames& names) {
  const OperatorCosts& costs = tables.find(samples)->of_group[group];
  const std::string benchmark =
      "operator " + tables.group_names[group] + " with " + std::to_string(samples) + " samples";
  const auto put_kind = [&](CostKind kind, const Value& value) {
    put(value.quality, operator_key(tables, kind, group, samples), benchmark, names);
  };
  put_kind(CostKind::kOperatorForward, costs.forward);
  put_kind(CostKind::kOperatorBackward, costs.backward);
  put_kind(CostKind::kOperatorStoredBytes, costs.stored);
  put_kind(CostKind::kOperatorWorkingBytes, costs.working);
}

void name_sync(const CostTable::Tables& tables, const StageShape& shape, std::int32_t i, CostNames& names) {
  const Quality quality = tables.find_sync(shape.dp, shape.placement)->all_reduce[i].quality;
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = "all_reduce";
  key.bytes = static_cast<std::int64_t>(tables.gradient[i]);
  key.group_size = shape.dp;
  key.placement = to_string(shape.placement);
  put(quality, key,
      "collective all_reduce of " + std::to_string(key.bytes) + " bytes over " + std::to_string(shape.dp) + " ranks",
      names);
}

void name_overlap(const CostTable::Tables& tables, const StageShape& shape, CostNames& names) {
  if (tables.find_sync(shape.dp, shape.placement)->overlap.measured) return;
  const Range range = shape.operators;
  const bool any = std::any_of(tables.gradient.begin() + range.begin, tables.gradient.begin() + range.end,
                               [](double bytes) { return bytes > 0; });
  if (!any) return;
  names.estimated.insert(
      "overlap_computation and overlap_communication all_reduce group_size=" + std::to_string(shape.dp) + " " +
      to_string(shape.placement) + ": no slowdown assumed (benchmark: overlap all_reduce over " +
      std::to_string(shape.dp) + " ranks)");
}

void unpriced(const std::string& where, const std::string& what, CostNames& names) {
  names.missing.insert(where + ": " + what + " is not priced by the native cost model");
}

void name_segment_features(const Segment& segment, const std::string& where, CostNames& names) {
  if (segment.tp > 1) unpriced(where + ".tp", "tensor parallelism", names);
  if (segment.cp > 1) unpriced(where + ".cp", "context parallelism", names);
  if (segment.sharded != ShardedLevel::kNone) unpriced(where + ".sharded", "sharded data parallelism", names);
  if (!segment.alternate_dimension.empty()) unpriced(where + ".alternate_dimension", "a second sharding", names);
  if (segment.switches != Switches{}) unpriced(where + ".switches", "a memory switch", names);
}

void name_tied_parameters(const Model& model, const Plan& plan, CostNames& names) {
  for (const TiedParameters& tied : model.tied_parameters) {
    std::set<std::size_t> stages;
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      for (const std::int32_t i : tied.operators) {
        if (plan.stages[s].operators().contains(i)) stages.insert(s);
      }
    }
    if (stages.size() < 2) continue;
    names.estimated.insert("stages: the reduction of parameters that stages " + std::to_string(*stages.begin()) +
                           " and " + std::to_string(*stages.rbegin()) + " share counts as free");
  }
}

}  // namespace

void name_stage_costs(const CostTable::Tables& tables, const StageShape& shape, CostNames& names) {
  std::set<std::int32_t> named;
  for (std::int32_t i = shape.operators.begin; i < shape.operators.end; ++i) {
    const std::int32_t group = tables.group_of[i];
    if (shape.dp > 1) name_sync(tables, shape, i, names);
    if (!named.insert(group).second) continue;
    name_group(tables, group, shape.samples, names);
    if (tables.model.operators[i].parameter_bytes == 0) continue;
    CostKey key = operator_key(tables, CostKind::kOptimizerStep, group, 0);
    put(tables.optimizer_of_group[group].quality, key, "optimizer " + tables.group_names[group], names);
  }
  if (shape.dp > 1) name_overlap(tables, shape, names);
}

void name_transfer_costs(const CostTable::Tables& tables, const std::vector<std::int32_t>& from,
                         const std::vector<std::int32_t>& to, double bytes_per_sample, std::int32_t microbatch,
                         CostNames& names) {
  const std::int32_t sent_each = microbatch / static_cast<std::int32_t>(from.size());
  const std::int32_t received_each = microbatch / static_cast<std::int32_t>(to.size());
  for (std::int32_t sample = 0; sample < microbatch;) {
    const std::int32_t i = sample / sent_each;
    const std::int32_t j = sample / received_each;
    const std::int32_t end = std::min((i + 1) * sent_each, (j + 1) * received_each);
    const std::int32_t from_node = tables.cluster.node_of(from[i]);
    const std::int32_t to_node = tables.cluster.node_of(to[j]);
    CostKey key;
    key.kind = CostKind::kPointToPoint;
    key.subject = "send_recv";
    key.bytes = static_cast<std::int64_t>(bytes_per_sample * (end - sample));
    key.placement = to_string(from_node == to_node ? Placement::kIntraNode : Placement::kInterNode);
    put(tables.links.point_to_point(key.bytes, from_node, to_node).quality, key,
        "point_to_point of " + std::to_string(key.bytes) + " bytes", names);
    sample = end;
  }
}

void name_process_cost(const CostTable::Tables& tables, CostNames& names) {
  CostKey key;
  key.kind = CostKind::kProcessBytes;
  key.subject = "process";
  put(tables.process_bytes.quality, key, "process", names);
}

void name_unpriced_features(const Model& model, const Plan& plan, CostNames& names) {
  const Schedule& schedule = plan.schedule;
  if (schedule.kind == ScheduleKind::kInterleaved) unpriced("schedule.kind", "the interleaved schedule", names);
  if (schedule.sliced_microbatches > 0) unpriced("schedule.sliced_microbatches", "slicing", names);
  if (schedule.sub_batches > 1 || schedule.cross_pass || schedule.recompute_after_communication) {
    unpriced("schedule", "a schedule of sub-batches", names);
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Segment>& segments = plan.stages[s].segments;
    for (std::size_t g = 0; g < segments.size(); ++g) {
      name_segment_features(segments[g], segment_text(s, g), names);
      if (segments[g].dp != segments[0].dp) unpriced(segment_text(s, g) + ".dp", "a layout change in a stage", names);
    }
  }
  name_tied_parameters(model, plan, names);
}

}  // namespace trimtab::tuner
