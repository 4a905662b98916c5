#include "stage_parts.hpp"

#include <algorithm>

namespace trimtab::tuner::aceso {
namespace {

// What recompute saves of one microbatch, and the largest part of it that is back at one time.
struct Saved {
  double saved = 0, peak = 0;
};

class StageView {
 public:
  StageView(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits)
      : tables_(tables), begin_(begin), splits_(splits) {}

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(splits_.size()); }
  [[nodiscard]] const Row& row(std::int32_t i) const { return tables_.row(splits_[i].setting, begin_ + i); }
  [[nodiscard]] const OperatorFacts& facts(std::int32_t i) const { return tables_.facts(begin_ + i); }
  [[nodiscard]] double activation(std::int32_t i) const { return row(i).activation * facts(i).name.activation_factor; }
  // Whether the output of operator i is a checkpoint that is kept all the same.
  [[nodiscard]] bool kept(std::int32_t i) const {
    return facts(i).name.activation_factor == 1 && facts(i + 1).name.starts_layer;
  }

  [[nodiscard]] Saved saved(std::span<const std::uint8_t> recompute) const {
    Saved result;
    double segment = 0;
    for (std::int32_t i = 0; i + 1 < size(); ++i) {
      if (recompute[i] == 0 || recompute[i + 1] == 0) {
        segment = 0;
        continue;
      }
      const double bytes = activation(i);
      segment += bytes;
      result.peak = std::max(result.peak, segment);
      if (kept(i)) {
        segment = 0;
      } else {
        result.saved += bytes;
      }
    }
    return result;
  }

 private:
  const Tables& tables_;
  std::int32_t begin_;
  std::span<const OperatorSplit> splits_;
};

double reserved(const StageView& view, double weight) {
  double forward = 0;
  double backward = 0;
  for (std::int32_t i = 0; i + 1 < view.size(); ++i) {
    forward = std::max(forward, view.row(i).forward_reserve);
    backward = std::max(backward, view.row(i).backward_reserve);
  }
  return std::max(forward + backward, weight);
}

// The published rule, group by group.
class Derivation {
 public:
  Derivation(const Tables& tables, std::int32_t begin, const StageView& view, std::int32_t copies,
             std::vector<std::uint8_t>& recompute)
      : view_(view), copies_(copies), recompute_(recompute), members_(tables.groups().size()) {
    for (std::int32_t i = 0; i < view.size(); ++i) {
      std::vector<std::int32_t>& members = members_[tables.facts(begin + i).group];
      if (members.empty()) order_.push_back(tables.facts(begin + i).group);
      members.push_back(i);
    }
    used_.assign(members_.size(), false);
    for (const std::int32_t group : order_) used_[group] = tables.groups()[group].never_recomputed;
  }

  // Recomputes until `memory` is at most `limit`.
  void run(double memory, double limit) {
    const double without = memory;
    while (memory > limit) {
      const std::int32_t group = largest();
      if (group < 0) return;
      used_[group] = true;
      const std::int32_t next = members_[group][0] + 1;
      if (next >= view_.size()) return;
      used_[view_.facts(next).group] = true;
      take(members_[group], memory - limit);
      const Saved saved = view_.saved(recompute_);
      memory = without - saved.saved * copies_ + saved.peak;
    }
  }

 private:
  [[nodiscard]] double gain(std::int32_t group) const {
    double sum = 0;
    for (const std::int32_t i : members_[group]) sum += view_.row(i).activation * copies_;
    return sum;
  }

  [[nodiscard]] std::int32_t largest() const {
    std::int32_t best = -1;
    double best_gain = 0;
    for (const std::int32_t group : order_) {
      if (used_[group]) continue;
      const double gained = gain(group);
      if (best < 0 || gained > best_gain) {
        best = group;
        best_gain = gained;
      }
    }
    return best;
  }

  void take(const std::vector<std::int32_t>& members, double excess) {
    double gained = 0;
    for (const std::int32_t i : members) {
      gained += view_.row(i).activation * copies_;
      recompute_[i] = 1;
      if (i + 1 < view_.size()) recompute_[i + 1] = 1;
      if (gained > excess) return;
    }
  }

  const StageView& view_;
  std::int32_t copies_;
  std::vector<std::uint8_t>& recompute_;
  std::vector<std::vector<std::int32_t>> members_;  // by group
  std::vector<std::int32_t> order_;                 // groups by first appearance
  std::vector<bool> used_;
};

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

void derive_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute) {
  recompute.assign(splits.size(), 0);
  const StageParts none = stage_parts(tables, begin, splits, recompute, place);
  const double memory = none.memory + tables.headroom();
  if (memory <= tables.memory_limit()) return;
  const StageView view(tables, begin, splits);
  Derivation(tables, begin, view, place.copies, recompute).run(memory, tables.memory_limit());
}

}  // namespace trimtab::tuner::aceso
