#include "cost_names.hpp"

#include <algorithm>
#include <utility>

#include "gradient_buckets.hpp"
#include "layout_change.hpp"
#include "plan_rules.hpp"
#include "schema/cost.hpp"
#include "step_graph.hpp"
#include "switch_stage.hpp"

namespace trimtab::tuner {
namespace {

void put(Quality quality, const CostKey& key, const std::string& benchmark, CostNames& names) {
  if (quality == Quality::kMeasured) return;
  const std::string text = describe(key) + " (benchmark: " + benchmark + ")";
  (quality == Quality::kMissing ? names.missing : names.estimated).insert(text);
}

void put_collective(const CostTable::Tables& tables, const CollectiveUse& use, CostNames& names) {
  const Value value = tables.links.collective(use.primitive, use.bytes, use.group_size, use.placement);
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = to_string(use.primitive);
  key.bytes = use.bytes;
  key.group_size = use.group_size;
  key.placement = to_string(use.placement);
  put(value.quality, key,
      "collective " + key.subject + " of " + std::to_string(key.bytes) + " bytes over " +
          std::to_string(key.group_size) + " ranks",
      names);
}

class StageNames {
 public:
  StageNames(const CostTable::Tables& tables, const StageShape& shape, CostNames& names)
      : tables_(tables), shape_(shape), names_(names) {}

  void run() {
    for (std::size_t g = 0; g < shape_.segments.size(); ++g) {
      name_segment(shape_.segments[g]);
      if (g > 0)
        name_change(shape_.segments[g - 1].split, shape_.segments[g].split, shape_.segments[g].operators.begin);
    }
    for (const GradientBucket& bucket : gradient_buckets(tables_, shape_)) {
      name_uses(collective_uses(tables_, *bucket.split, bucket.parameters));
    }
  }

  // All-reduces of tensor-parallel ranks, and what they slow down.
  void name_reduces() {
    for (const SegmentShape& segment : shape_.segments) {
      if (segment.split.split.tp < 2) continue;
      std::set<std::int32_t> named;
      bool reduces = false;
      for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
        const std::int32_t group = tables_.group_of[i];
        if (named.insert(group).second) reduces = name_reduce(segment.split, group) || reduces;
      }
      if (reduces) name_overlap_of(segment.split.split.tp, segment.split.tensor);
    }
  }

 private:
  bool name_reduce(const SplitShape& split, std::int32_t group) {
    const Operator& op = tables_.operator_of(group);
    const std::optional<std::int32_t> reduces = tensor_all_reduces(op);
    if (reduces && *reduces > 0) put_collective(tables_, tensor_use(tables_, split, group), names_);
    if (!reduces && op.parameter_bytes > 0) {
      names_.estimated.insert("operator " + tables_.group_names[group] +
                              ": its all-reduces at tp=" + std::to_string(split.split.tp) +
                              " are not known apart, none overlaps (the model's tensor_all_reduces says how many)");
    }
    return reduces && *reduces > 0;
  }

  [[nodiscard]] bool alternate(std::int32_t i) const {
    return std::any_of(shape_.alternate.begin(), shape_.alternate.end(),
                       [i](const Range& range) { return range.contains(i); });
  }

  void name_segment(const SegmentShape& segment) {
    std::set<std::pair<std::int32_t, bool>> named;
    bool trained = false;
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const std::int32_t group = tables_.group_of[i];
      const bool second = alternate(i);
      if (i > segment.operators.begin && second != alternate(i - 1)) name_flip(segment.split, second, i);
      trained = trained || tables_.operator_of(group).parameter_bytes > 0;
      if (named.insert({group, second}).second) name_group(segment.split, group, second);
    }
    if (segment.split.split.tp > 1 && segment.split.tensor == Placement::kInterNode) {
      names_.missing.insert("operators " + std::to_string(segment.operators.begin) + " to " +
                            std::to_string(segment.operators.end - 1) +
                            ": tp=" + std::to_string(segment.split.split.tp) +
                            " over two nodes: operators are measured on the ranks of one node");
    }
    if (segment.split.split.dp > 1 && trained && !tables_.passes_only) name_overlap(segment.split);
  }

  [[nodiscard]] CostKey key_of(CostKind kind, std::int32_t group, const SplitShape& split, bool second) const {
    CostKey key;
    key.kind = kind;
    key.subject = tables_.group_names[group];
    key.dtype = tables_.model.dtype;
    key.samples = split.samples;
    key.tp = split.split.tp;
    if (second) key.sharding = "alternate";
    return key;
  }

  void name_group(const SplitShape& split, std::int32_t group, bool second) {
    const OperatorCosts& costs = tables_.at(split.samples, split.split.tp, second).of_group[group];
    std::string benchmark =
        "operator " + tables_.group_names[group] + " with " + std::to_string(split.samples) + " samples";
    if (split.split.tp > 1) benchmark += " on " + std::to_string(split.split.tp) + " ranks";
    if (second) benchmark += ", alternate";
    const auto put_kind = [&](CostKind kind, const Value& value) {
      put(value.quality, key_of(kind, group, split, second), benchmark, names_);
    };
    put_kind(CostKind::kOperatorForward, costs.forward);
    put_kind(CostKind::kOperatorBackward, costs.backward);
    put_kind(CostKind::kOperatorStoredBytes, costs.stored);
    put_kind(CostKind::kOperatorWorkingBytes, costs.working);
    if (tables_.operator_of(group).parameter_bytes == 0) return;
    CostKey optimizer = key_of(CostKind::kOptimizerStep, group, split, second);
    optimizer.samples = 0;
    optimizer.tp = 1;
    optimizer.sharding = "default";
    put(tables_.optimizer_of_group[group].quality, optimizer, "optimizer " + tables_.group_names[group], names_);
    if (split.split.dp < 2 || tables_.passes_only || shape_.bucket_bytes > 0) return;
    name_uses(collective_uses(tables_, split, costs.parameters));
  }

  void name_uses(const CollectiveUses& uses) {
    for (const CollectiveUse& use : {uses.gather, uses.scatter, uses.last, uses.last_copies, uses.after}) {
      put_collective(tables_, use, names_);
    }
  }

  void name_overlap(const SplitShape& split) {
    name_overlap_of(split.sharded() ? split.split.sharded_degree : split.split.dp,
                    split.sharded() ? split.shards : split.replicas);
  }

  void name_overlap_of(std::int32_t group, Placement placement) {
    if (tables_.links.overlap(group, placement).measured) return;
    names_.estimated.insert(
        "overlap_computation and overlap_communication all_reduce group_size=" + std::to_string(group) + " " +
        to_string(placement) + ": no slowdown assumed (benchmark: overlap all_reduce over " + std::to_string(group) +
        " ranks)");
  }

  void name_flip(const SplitShape& split, bool second, std::int32_t i) {
    name_moves(layout_change(split, !second, split, second, tables_.output[i - 1]));
  }
  void name_change(const SplitShape& before, const SplitShape& after, std::int32_t i) {
    name_moves(layout_change(before, alternate(i - 1), after, alternate(i), tables_.output[i - 1]));
  }
  void name_moves(const LayoutChange& change) {
    put_collective(tables_, change.forward, names_);
    put_collective(tables_, change.backward, names_);
  }

  const CostTable::Tables& tables_;
  const StageShape& shape_;
  CostNames& names_;
};

using Texts = std::vector<std::string>;

void unpriced(const std::string& where, const std::string& what, Texts& names) {
  names.push_back(where + ": " + what + " is not priced by the native cost model");
}

void name_segment_features(const Segment& segment, const std::string& where, Texts& names) {
  if (segment.cp > 1) unpriced(where + ".cp", "context parallelism", names);
  if (segment.tp > 1 && segment.dp > 1 && !segment.tp_consecutive) {
    unpriced(where + ".tp_consecutive", "a replica of devices that are not consecutive", names);
  }
}

// What a target may do otherwise that changes times or memory.
void name_target_features(const Plan& plan, Texts& names) {
  if (target_says(plan, "sequence_parallel", "true")) {
    unpriced("target_knobs.sequence_parallel", "sequence parallelism", names);
  }
  const auto virtual_stages = plan.target_knobs.find("virtual_stages");
  if (virtual_stages != plan.target_knobs.end() && virtual_stages->second != "1") {
    unpriced("target_knobs.virtual_stages", "a stage in several parts (schedule.kind interleaved is)", names);
  }
  if (plan.target_knobs.count("execution") != 0) {
    unpriced("target_knobs.execution", "another way to execute than was measured", names);
  }
  for (const char* const knob : {kParameterPrefetch, kGradientAccumulation}) {
    const bool other = target_says(plan, knob, "false") || target_says(plan, knob, "\"whole\"");
    if (other && plan.schedule.sub_batches > 1) {
      unpriced(std::string("target_knobs.") + knob, "another than the default beside sub-batches", names);
    }
  }
  if (plan.target_knobs.count(kBucketBytes) == 0) return;
  if (plan.schedule.sub_batches > 1) unpriced("target_knobs.bucket_bytes", "a bucket beside sub-batches", names);
  const auto any = [&plan](auto&& of) {
    return std::any_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
      return std::any_of(stage.segments.begin(), stage.segments.end(), of);
    });
  };
  if (any([](const Segment& of) { return of.sharded == ShardedLevel::kParameters; })) {
    unpriced("target_knobs.bucket_bytes", "a bucket of sharded parameters", names);
  }
  if (any([](const Segment& of) { return has_switches(of.switches); })) {
    unpriced("target_knobs.bucket_bytes", "a bucket beside memory switches", names);
  }
}

}  // namespace

void name_stage_costs(const CostTable::Tables& tables, const StageShape& shape, CostNames& names) {
  StageNames(tables, shape, names).run();
}

void name_sub_batch_costs(const CostTable::Tables& tables, const StageShape& half, CostNames& names) {
  StageNames(tables, half, names).name_reduces();
}

void name_transfer_costs(const CostTable::Tables& tables, const std::vector<std::int32_t>& node_of,
                         const TransferSide& from, const TransferSide& to, double bytes_per_sample,
                         std::int32_t microbatch, CostNames& names) {
  for_each_message(from.dp, to.dp, microbatch, [&](const Message& message) {
    const std::int32_t from_node = node_of[from.devices[message.from * from.tp]];
    const std::int32_t to_node = node_of[to.devices[message.to * to.tp]];
    CostKey key;
    key.kind = CostKind::kPointToPoint;
    key.subject = "send_recv";
    key.bytes = static_cast<std::int64_t>(bytes_per_sample * message.samples);
    key.placement = to_string(from_node == to_node ? Placement::kIntraNode : Placement::kInterNode);
    put(tables.links.point_to_point(key.bytes, from_node, to_node).quality, key,
        "point_to_point of " + std::to_string(key.bytes) + " bytes", names);
  });
}

void name_tied_costs(const CostTable::Tables& tables, const std::vector<TiedStage>& stages, CostNames& names) {
  for (const TiedParameters& tied : tables.model.tied_parameters) {
    std::vector<std::int32_t> members;
    tied_members(tied, stages, members);
    put_collective(tables, tied_use(tables, tied, stages, members, 0), names);
  }
}

void name_cost(Quality quality, const CostKey& key, const std::string& benchmark, CostNames& names) {
  put(quality, key, benchmark, names);
}

void name_process_cost(const CostTable::Tables& tables, CostNames& names) {
  CostKey key;
  key.kind = CostKind::kProcessBytes;
  key.subject = "process";
  put(tables.process_bytes.quality, key, "process", names);
}

std::vector<std::string> unpriced_features(const Plan& plan) {
  Texts names;
  const Schedule& schedule = plan.schedule;
  const bool interleaved = schedule.kind == ScheduleKind::kInterleaved;
  const bool meet = target_says(plan, kTransfersMeet, "true");
  if (meet && interleaved) {
    unpriced("target_knobs.transfers_meet", "a meeting of sender and receiver in the interleaved schedule", names);
  }
  if (meet && forwards_of(plan) > kMostGraphForwards) {
    unpriced("target_knobs.transfers_meet",
             "a step of more than " + std::to_string(kMostGraphForwards) +
                 " forwards (stages times microbatches) where sender and receiver meet",
             names);
  }
  if (meet && schedule.sliced_microbatches > 0) {
    unpriced("schedule.sliced_microbatches", "slicing where sender and receiver meet", names);
  }
  if (schedule.sliced_microbatches > 0 && schedule.kind != ScheduleKind::k1F1B) {
    unpriced("schedule.sliced_microbatches", "slicing outside of 1f1b", names);
  }
  name_target_features(plan, names);
  if (schedule.sub_batches > 2) unpriced("schedule.sub_batches", "a microbatch in more than two sub-batches", names);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Segment>& segments = plan.stages[s].segments;
    for (std::size_t g = 0; g < segments.size(); ++g) {
      name_segment_features(segments[g], segment_text(s, g), names);
      if (interleaved && has_switches(segments[g].switches)) {
        unpriced(segment_text(s, g) + ".switches", "a memory switch in the interleaved schedule", names);
      }
    }
  }
  return names;
}

}  // namespace trimtab::tuner
