#include "papers/aceso/stage_parts.hpp"

namespace trimtab::tuner::aceso {
namespace {

double reserved(const StageView& view, double weight) {
  double forward = 0;
  double backward = 0;
  for (std::int32_t i = 0; i + 1 < view.size(); ++i) {
    forward = std::max(forward, view.row(i).forward_reserve);
    backward = std::max(backward, view.row(i).backward_reserve);
  }
  return std::max(forward + backward, weight);
}

}  // namespace

void mark(const std::vector<Range>& ranges, std::int32_t begin, std::vector<std::uint8_t>& flags) {
  for (const Range& range : ranges) {
    for (std::int32_t op = range.begin; op < range.end; ++op) flags[op - begin] = 1;
  }
}

ReshardTime reshard_time(const Tables& tables, std::int32_t op, const OperatorSplit& before,
                         const OperatorSplit& split) {
  const LayoutRule output = tables.facts(op - 1).layouts.output[before.alternate ? 1 : 0];
  const LayoutRule input = tables.facts(op).layouts.input[split.alternate ? 1 : 0];
  ReshardTime time;
  if (!tables.resharding() || output == LayoutRule::kAny || input == LayoutRule::kAny) return time;
  if (output == input && before.tp == split.tp && before.dp == split.dp) return time;
  Layout from = layout(output, before.tp, before.dp);
  const Layout to = layout(input, split.tp, split.dp);
  const double mib = tables.row(split.setting, op).input;
  for (Reshard step; step_towards(to, from, step);) {
    time.forward += tables.profile().collective(step.forward, step.group, mib);
    time.backward += tables.profile().collective(step.backward, step.group, mib);
  }
  return time;
}

StageParts stage_parts(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                       std::span<const std::uint8_t> recompute, const Place& place) {
  const StageView view(tables, begin, splits);
  const std::int32_t last = view.size() - 1;
  StageParts parts;
  double activations = view.row(0).input;
  for (std::int32_t i = 0; i <= last; ++i) {
    const Row& row = view.row(i);
    parts.forward += row.forward;
    parts.backward += row.backward;
    if (recompute[i] != 0) parts.recompute += row.forward;
    parts.weight += row.weight;
    activations += view.activation(i);
    if (i == 0) continue;
    const ReshardTime reshard = reshard_time(tables, begin + i, splits[i - 1], splits[i]);
    parts.in += reshard.forward;
    parts.out += reshard.backward;
  }
  parts.reshard = parts.in + parts.out;
  // The published code looks the output up with the tensor-parallel width of the stage's first operator.
  const OperatorSplit& of_last = splits[last];
  const std::int32_t samples_setting =
      splits[0].tp == of_last.tp ? of_last.setting : tables.with_tp(of_last.setting, splits[0].tp);
  parts.in += tables.transfer(view.row(0).input, place.inter_node_input);
  parts.out += tables.transfer(tables.row(samples_setting, begin + last).output, place.inter_node_output);
  const Saved saved = view.saved(recompute);
  parts.kept = activations - saved.saved;
  parts.recompute_peak = saved.peak;
  parts.reserved = reserved(view, parts.weight);
  parts.memory =
      parts.weight * tables.state_multiple() + parts.kept * place.copies + parts.recompute_peak + parts.reserved;
  return parts;
}

}  // namespace trimtab::tuner::aceso
