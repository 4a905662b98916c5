#include "native/step/cost_names.hpp"

#include "native/costs/operator_traits.hpp"
#include "native/stage/sequence_costs.hpp"
#include "native/stage/switch_stage.hpp"
#include "plan/plan_rules.hpp"
#include "solvers/step_graph.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

bool of_memory(CostKind kind) {
  switch (kind) {
    case CostKind::kOperatorStoredBytes:
    case CostKind::kOperatorWorkingBytes:
    case CostKind::kProcessBytes:
      return true;
    default:
      return false;
  }
}

void put(Quality quality, const CostKey& key, const std::string& benchmark, CostNames& names) {
  if (quality == Quality::kMeasured) {
    if (key.kind != CostKind::kCollective || key.bytes > 0) names.measured.insert(key);
    return;
  }
  std::string text = describe(key) + " (benchmark: " + benchmark + ")";
  if (quality == Quality::kEstimated) {
    names.estimated.insert(std::move(text));
  } else if (of_memory(key.kind)) {
    names.missing.insert(std::move(text));
    names.memory_missing = true;
  } else {
    names.miss_time(std::move(text));
  }
}

void put_collective(const CostTable::Tables& tables, const CollectiveUse& use, CostNames& names) {
  const Value value = tables.links.collective(use.primitive, use.bytes, use.group_size, use.route);
  CostKey key;
  key.kind = CostKind::kCollective;
  key.subject = to_string(use.primitive);
  key.bytes = use.bytes;
  key.group_size = use.group_size;
  key.placement = to_string(use.route.placement);
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
      if (reduces) name_overlap_of(segment.split.split.tp, segment.split.tensor.placement);
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

  void name_segment(const SegmentShape& segment) {
    std::set<std::pair<std::int32_t, bool>> named;
    bool trained = false;
    for (std::int32_t i = segment.operators.begin; i < segment.operators.end; ++i) {
      const std::int32_t group = tables_.group_of[i];
      const bool second = contains(shape_.alternate, i);
      if (i > segment.operators.begin && second != contains(shape_.alternate, i - 1))
        name_flip(segment.split, second, i);
      trained = trained || tables_.operator_of(group).parameter_bytes > 0;
      if (named.insert({group, second}).second) name_group(segment.split, group, second);
    }
    if (segment.split.split.tp > 1 && segment.split.tensor.placement == Placement::kInterNode) {
      names_.miss_time(over_two_nodes(segment, "tp=" + std::to_string(segment.split.split.tp)));
    }
    if (segment.split.cp > 1) name_context(segment);
    if (segment.split.replica_ranks() > 1 && trained && !tables_.passes_only) name_overlap(segment.split);
  }

  [[nodiscard]] static std::string over_two_nodes(const SegmentShape& segment, const std::string& ranks) {
    return "operators " + std::to_string(segment.operators.begin) + " to " + std::to_string(segment.operators.end - 1) +
           ": " + ranks + " over two nodes: operators are measured on the ranks of one node";
  }

  // What stands in the way of context parallelism's costs where they are not measured.
  void name_context(const SegmentShape& segment) {
    const std::string ranks = "cp=" + std::to_string(segment.split.cp);
    const bool estimates = tables_.links.allows_estimates();
    if (segment.split.context.placement == Placement::kInterNode) {
      if (estimates) {
        names_.estimated.insert(over_two_nodes(segment, ranks));
      } else {
        names_.miss_time(over_two_nodes(segment, ranks));
      }
    }
    if (estimates && !knows_keys_and_values(tables_.model)) {
      names_.miss_time(ranks + ": the model's key_value_bytes, what context-parallel ranks exchange");
    }
  }

  [[nodiscard]] CostKey key_of(CostKind kind, std::int32_t group, const SplitShape& split, bool second) const {
    CostKey key;
    key.kind = kind;
    key.subject = tables_.group_names[group];
    key.dtype = tables_.model.dtype;
    key.samples = split.samples;
    key.tp = split.split.tp;
    if (second) key.sharding = "alternate";
    if (split.shares_sequence()) key.sharding = sharing_name(split.cp, split.sequence);
    return key;
  }

  void name_group(const SplitShape& split, std::int32_t group, bool second) {
    const OperatorCosts costs = costs_under(tables_, split, second, group);
    std::string benchmark =
        "operator " + tables_.group_names[group] + " with " + std::to_string(split.samples) + " samples";
    if (split.split.tp > 1) benchmark += " on " + std::to_string(split.split.tp) + " ranks";
    if (second) benchmark += ", alternate";
    if (split.shares_sequence()) benchmark += ", " + sharing_name(split.cp, split.sequence);
    const auto put_kind = [&](CostKind kind, const Value& value) {
      put(value.quality, key_of(kind, group, split, second), benchmark, names_);
    };
    put_kind(CostKind::kOperatorForward, costs.forward);
    put_kind(CostKind::kOperatorBackward, costs.backward);
    put_kind(CostKind::kOperatorStoredBytes, costs.stored);
    put_kind(CostKind::kOperatorWorkingBytes, costs.working);
    if (split.shares_sequence()) name_sharing(split, group, costs);
    if (tables_.operator_of(group).parameter_bytes == 0) return;
    CostKey optimizer = key_of(CostKind::kOptimizerStep, group, split, second);
    optimizer.samples = 0;
    optimizer.tp = 1;
    optimizer.sharding = "default";
    put(tables_.optimizer_of_group[group].quality, optimizer, "optimizer " + tables_.group_names[group], names_);
    if (split.replica_ranks() < 2 || tables_.passes_only || shape_.bucket_bytes > 0) return;
    name_uses(collective_uses(tables_, split, costs.parameters));
  }

  // What estimates of its times are made of.
  void name_sharing(const SplitShape& split, std::int32_t group, const OperatorCosts& costs) {
    const bool measured = costs.forward.quality == Quality::kMeasured && costs.backward.quality == Quality::kMeasured;
    if (measured || !tables_.links.allows_estimates()) return;
    for (const CollectiveUse& use : sharing_uses(tables_, split, group)) put_collective(tables_, use, names_);
    if (split.cp > 1 && key_value_bytes(tables_.operator_of(group)) > 0)
      name_overlap_of(split.cp, split.context.placement);
  }

  void name_uses(const CollectiveUses& uses) {
    for (const CollectiveUse& use : {uses.gather, uses.scatter, uses.last, uses.last_copies, uses.after}) {
      put_collective(tables_, use, names_);
    }
  }

  void name_overlap(const SplitShape& split) {
    name_overlap_of(split.sharded() ? split.shard_ranks() : split.replica_ranks(),
                    (split.sharded() ? split.shards : split.replicas).placement);
  }

  // Whether a slowdown is known hangs on the group alone: another primitive's, and another size's, count too.
  void name_overlap_of(std::int32_t group, Placement placement) {
    const OverlapSubject of{to_string(Primitive::kAllReduce), 1, group, placement};
    const Slowdowns slowdowns = tables_.overlaps.beside(of, ComputationKind::kUnknown);
    if (slowdowns.plain().measured) {
      names_.slowdowns.insert("computing beside " + std::string(of.primitive) + " of " + std::to_string(group) +
                              " ranks: " + tables_.overlaps.rests_on(slowdowns.computation));
      names_.slowdowns.insert(std::string(of.primitive) + " of " + std::to_string(group) +
                              " ranks beside computing: " + tables_.overlaps.rests_on(slowdowns.communication));
      return;
    }
    const Slowdown& worse =
        slowdowns.computation.basis < slowdowns.communication.basis ? slowdowns.communication : slowdowns.computation;
    const bool none = worse.basis == OverlapBasis::kNone;
    names_.estimated.insert(
        "overlap_computation and overlap_communication all_reduce group_size=" + std::to_string(group) + " " +
        to_string(placement) + ": " + (none ? "no slowdown assumed" : tables_.overlaps.rests_on(worse)) +
        " (benchmark: overlap all_reduce over " + std::to_string(group) + " ranks)");
  }

  void name_flip(const SplitShape& split, bool second, std::int32_t i) {
    name_moves(layout_change(split, !second, split, second, tables_.output[i - 1]));
  }
  void name_change(const SplitShape& before, const SplitShape& after, std::int32_t i) {
    name_moves(layout_change(before, contains(shape_.alternate, i - 1), after, contains(shape_.alternate, i),
                             tables_.output[i - 1]));
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

// Beside ranks that share sequences.
void name_sharing_features(const Plan& plan, Texts& names) {
  if (!shares_sequences(plan)) return;
  const std::string which =
      target_says(plan, kSequenceParallel, "true") ? "sequence parallelism" : "context parallelism";
  if (plan.schedule.sub_batches > 1) unpriced("schedule.sub_batches", "a sub-batch beside " + which, names);
  const Segment& first = plan.stages.front().segments.front();
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    const std::string where = segment_text(s, g);
    if (segment.tp != first.tp || segment.cp != first.cp) {
      unpriced(where, "another tp or cp than the first segment's beside " + which, names);
    }
    if (!segment.alternate_dimension.empty()) {
      unpriced(where + ".alternate_dimension", "a second sharding choice beside " + which, names);
    }
    if (has_switches(segment.switches)) {
      unpriced(where + ".switches", "a memory switch beside " + which, names);
    }
  });
}

// What a target may do otherwise that changes times or memory.
void name_target_features(const Plan& plan, Texts& names) {
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
    return std::ranges::any_of(plan.stages,
                               [&](const Stage& stage) { return std::ranges::any_of(stage.segments, of); });
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
    const std::int32_t from_node = node_of[from.first_device(message.from)];
    const std::int32_t to_node = node_of[to.first_device(message.to)];
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
  name_sharing_features(plan, names);
  if (schedule.sub_batches > 2) unpriced("schedule.sub_batches", "a microbatch in more than two sub-batches", names);
  for_each_segment(plan, [&](const Segment& segment, std::size_t s, std::size_t g) {
    const std::string where = segment_text(s, g);
    if (segment.tp > 1 && segment.dp * segment.cp > 1 && !segment.tp_consecutive) {
      unpriced(where + ".tp_consecutive", "a replica of devices that are not consecutive", names);
    }
    if (segment.switches.offload_optimizer && segment.dp > 1 && segment.sharded != ShardedLevel::kGradients) {
      unpriced(where + ".switches.offload_optimizer", "an optimizer on the host whose gradients are not sharded alone",
               names);
    }
    if (interleaved && has_switches(segment.switches)) {
      unpriced(where + ".switches", "a memory switch in the interleaved schedule", names);
    }
  });
  return names;
}

}  // namespace trimtab::tuner
