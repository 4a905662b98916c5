// Galvatron: the strategy file of galvatron_config_path (galvatron/core/runtime/hybrid_parallel_config.py and
// galvatron/utils/config_utils.py). Its lists have a number for each layer; embedding and head have degrees of their
// own.

#include <algorithm>

#include "documents/json_document.hpp"
#include "targets/plan_layers.hpp"

namespace trimtab {

namespace {

std::vector<Range> parts_and_layers(const PlanLayers& view) {
  std::vector<Range> all = view.parts.layers;
  for (const Range& end : {view.parts.before, view.parts.after}) {
    if (end.size() > 0) all.push_back(end);
  }
  return all;
}

bool same_split(const OperatorSetting& a, const OperatorSetting& b) {
  return a.dp == b.dp && a.tp == b.tp && a.cp == b.cp && a.sharded == b.sharded &&
         a.sharded_degree == b.sharded_degree && a.tp_consecutive == b.tp_consecutive;
}

void check_uniform_inside(const PlanLayers& view, Complaints& complaints) {
  for (const Range& part : parts_and_layers(view)) {
    for (std::int32_t op = part.begin; op < part.end; ++op) {
      if (same_split(view.operators[op], view.operators[part.begin])) continue;
      complaints.push_back(place_of(view.operators[op]) + ": a layer is split as a whole, but operators " +
                           std::to_string(part.begin) + " and " + std::to_string(op) + " of one differ");
      return;
    }
  }
}

// What is sharded is zero3 (a 1 of dp_types_enc) or the one default of the file.
void check_levels(const PlanLayers& view, Complaints& complaints) {
  const OperatorSetting* usual = nullptr;
  for (const OperatorSetting& one : view.operators) {
    if (one.sharded == ShardedLevel::kOptimizer) {
      return complaints.push_back(place_of(one) +
                                  ".sharded: must be none, gradients or parameters, found \"optimizer\"");
    }
    if (one.sharded == ShardedLevel::kParameters || one.dp == 1) continue;
    if (usual == nullptr) usual = &one;
    if (usual->sharded == one.sharded) continue;
    return complaints.push_back(
        place_of(one) + ".sharded: where parameters are not sharded, gradients are in the whole job or nowhere");
  }
}

// Embedding and head share one setting.
void check_ends(const PlanLayers& view, Complaints& complaints) {
  const Range& before = view.parts.before;
  const Range& after = view.parts.after;
  if (before.size() == 0 || after.size() == 0) return;
  const OperatorSetting& first = view.first_of(before);
  const OperatorSetting& last = view.first_of(after);
  if (same_split(first, last)) return;
  complaints.push_back(place_of(last) + ": embedding and head must be split alike");
}

void check(const PlanLayers& view, Complaints& complaints) {
  need_devices_in_order(view, false, complaints);
  need_equal_stages(view, complaints);
  need_cuts_between_layers(view, complaints);
  if (std::ranges::count(view.layers_by_stage(), 0) > 0) complaints.push_back("stages: each needs a layer");
  check_uniform_inside(view, complaints);
  check_levels(view, complaints);
  need_sharding_over_all(view, complaints);
  check_ends(view, complaints);
  need_whole_microbatches(view, complaints);
  need_blocking_transfers(view, complaints);
  need_no_alternate_dimension(view, complaints);
  need_no_switches(view, false, complaints);
  need_whole_layers_recomputed(view, complaints);
  need_known_knobs(view, {}, complaints);
  if (view.plan->schedule.kind == ScheduleKind::kInterleaved) {
    complaints.push_back("schedule.kind: must be \"1f1b\" or \"gpipe\", found \"interleaved\"");
  }
}

template <typename Items, typename Value>
std::string listed(const Items& items, Value&& value) {
  std::string text;
  for (const auto& one : items) text += (text.empty() ? "" : ",") + std::to_string(static_cast<int>(value(one)));
  return text;
}

const char* default_type(const PlanLayers& view) {
  const auto gradients = std::ranges::count(view.operators, ShardedLevel::kGradients, &OperatorSetting::sharded);
  return gradients > 0 ? "zero2" : "ddp";
}

// Of the end that the model has; a model without ends leaves Galvatron's own at one rank.
const OperatorSetting* end_of(const PlanLayers& view) {
  if (view.parts.before.size() > 0) return &view.first_of(view.parts.before);
  return view.parts.after.size() > 0 ? &view.first_of(view.parts.after) : nullptr;
}

ExportedPlan write(const PlanLayers& view) {
  const std::vector<Range>& layers = view.parts.layers;
  const auto setting = [&](const Range& layer) -> const OperatorSetting& { return view.first_of(layer); };
  const OperatorSetting* const end = end_of(view);
  const int end_sharded = end != nullptr && end->sharded == ShardedLevel::kParameters ? 1 : 0;
  const bool gpipe = view.plan->schedule.kind == ScheduleKind::kGPipe;
  const OrderedJson json{
      {"pp_deg", view.plan->stages.size()},
      {"tp_sizes_enc", listed(layers, [&](const Range& layer) { return setting(layer).tp; })},
      {"cp_sizes_enc", listed(layers, [&](const Range& layer) { return setting(layer).cp; })},
      {"tp_consecutive_flags", listed(layers, [&](const Range& layer) { return setting(layer).tp_consecutive; })},
      {"dp_types_enc",
       listed(layers, [&](const Range& layer) { return setting(layer).sharded == ShardedLevel::kParameters; })},
      {"use_sp", listed(layers, [](const Range&) { return 0; })},
      {"checkpoint", listed(layers, [&](const Range& layer) { return view.recomputed(layer); })},
      {"global_bsz", view.plan->global_batch},
      {"chunks", view.plan->microbatches()},
      {"pp_division", listed(view.layers_by_stage(), [](std::int32_t count) { return count; })},
      {"pipeline_type", gpipe ? "gpipe" : "pipedream_flush"},
      {"default_dp_type", default_type(view)},
      {"vtp", end != nullptr ? end->tp : 1},
      {"vsp", 0},
      {"vcp", end != nullptr ? end->cp : 1},
      {"embed_sdp", end_sharded},
      {"vocab_sdp", end_sharded}};
  return {{}, "galvatron.json", json.dump(2) + "\n"};
}

}  // namespace

TargetEntry galvatron_target() {
  TargetEntry entry;
  entry.name = "galvatron";
  entry.knobs = {
      {"global_batch", "global_bsz"},
      {"microbatch", "chunks, microbatches of a step"},
      {"stages", "pp_deg, pp_division: equal counts of devices in order, cuts between layers, a layer in each"},
      {"schedule.kind", "pipeline_type: 1f1b pipedream_flush, gpipe gpipe"},
      {"segments.tp", "tp_sizes_enc by layer; vtp for embedding and head"},
      {"segments.cp", "cp_sizes_enc by layer; vcp"},
      {"segments.tp_consecutive", "tp_consecutive_flags by layer"},
      {"segments.dp", "what is left of a stage's ranks"},
      {"segments.sharded",
       "parameters: dp_types_enc 1 by layer, vocab_sdp (embed_sdp before 2.4); else default_dp_type, "
       "ddp or zero2, one for the job"},
      {"segments.recompute", "checkpoint, whole layers"}};
  TargetLimits& limits = entry.limits;
  limits.pipeline = true;
  limits.tensor_parallel = limits.sharded = limits.recompute = Reach::kLayer;
  limits.levels = {ShardedLevel::kNone, ShardedLevel::kGradients, ShardedLevel::kParameters};
  limits.one_sharded_kind = true;
  entry.check = check;
  entry.write = write;
  return entry;
}

}  // namespace trimtab
