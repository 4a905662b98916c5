#include <algorithm>

#include "plan/plan_rules.hpp"
#include "plan/switch_plan.hpp"
#include "tuner/validate.hpp"

namespace trimtab::tuner {
namespace {

void check_whole_layers(const std::vector<Range>& ranges, const std::vector<Range>& layers, const std::string& where,
                        Rules& rules) {
  for (const Range& layer : layers) {
    const std::int32_t count = h3t::covered(ranges, layer);
    if (count == 0 || count == layer.size()) continue;
    rules.broken(where + ": holds for whole layers where memory switches are on, found a part of operators " +
                 std::to_string(layer.begin) + " to " + std::to_string(layer.end - 1));
    return;
  }
}

void check_switched(const Plan& plan, const Model& model, std::size_t s, std::size_t g, Rules& rules) {
  const std::string where = segment_text(s, g);
  const Segment& segment = plan.stages[s].segments[g];
  const Switches& switches = segment.switches;
  if (!switches.offload_optimizer) {
    rules.broken(where + ".switches.offload_optimizer: must be true in all segments of a stage with memory switches");
  }
  const bool after_another = g > 0 && segment.operators.begin > 0 && segment.operators.size() > 0;
  if (after_another && !between_layers(model, segment.operators.begin)) {
    rules.broken(where + ".operators: must begin with a layer where memory switches are on, found " +
                 operator_text(model, segment.operators.begin) + " inside of one");
    return;
  }
  const ShardedLevel level = segment.dp > 1 ? ShardedLevel::kGradients : ShardedLevel::kNone;
  if (segment.sharded != level || (segment.sharded_degree > 0 && segment.sharded_degree != segment.dp)) {
    rules.broken(where + ".sharded: must be " + (segment.dp > 1 ? "gradients over all replicas" : "none at dp 1") +
                 " where memory switches are on; parameters are sharded by switches.partition_parameters");
  }
  if (!segment.alternate_dimension.empty()) {
    rules.broken(where + ".alternate_dimension: must be empty where memory switches are on");
  }
  const std::vector<Range> layers = layers_inside(model, segment.operators);
  check_whole_layers(segment.recompute, layers, where + ".recompute", rules);
  check_whole_layers(switches.offload_hidden, layers, where + ".switches.offload_hidden", rules);
  check_whole_layers(switches.partition_parameters, layers, where + ".switches.partition_parameters", rules);
  check_whole_layers(switches.lazy_prefetch, layers, where + ".switches.lazy_prefetch", rules);
  check_whole_layers(switches.economical_forward, layers, where + ".switches.economical_forward", rules);
  check_whole_layers(switches.economical_backward, layers, where + ".switches.economical_backward", rules);
  check_whole_layers(switches.segment_sync, layers, where + ".switches.segment_sync", rules);
  for (const Range& layer : layers) {
    if (h3t::covered(switches.offload_hidden, layer) == 0 || h3t::covered(segment.recompute, layer) > 0) continue;
    rules.broken(where + ".switches.offload_hidden: needs recompute of " + operator_text(model, layer.begin) + " too");
    return;
  }
}

}  // namespace

void check_switches(const Plan& plan, const Model& model, Rules& rules) {
  bool any = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<Segment>& segments = plan.stages[s].segments;
    const bool switched = std::any_of(segments.begin(), segments.end(),
                                      [](const Segment& segment) { return has_switches(segment.switches); });
    any = any || switched;
    const bool inside = std::all_of(segments.begin(), segments.end(), [&](const Segment& segment) {
      const auto operators = static_cast<std::int32_t>(model.operators.size());
      return segment.operators.begin >= 0 && segment.operators.end <= operators;
    });
    for (std::size_t g = 0; g < segments.size() && switched && inside; ++g) check_switched(plan, model, s, g, rules);
  }
  if (any && (plan.schedule.sub_batches > 1 || plan.schedule.sliced_microbatches > 0)) {
    rules.broken("schedule: must run whole microbatches where memory switches are on");
  }
}

}  // namespace trimtab::tuner
