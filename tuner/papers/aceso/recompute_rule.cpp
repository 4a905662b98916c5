#include "papers/aceso/recompute_rule.hpp"

namespace trimtab::tuner::aceso {

RecomputeRule::RecomputeRule(const Tables& tables) : tables_(tables), slots_(tables.groups().size(), -1) {}

void RecomputeRule::gather(std::int32_t begin, const StageView& view, std::int32_t copies) {
  groups_.clear();
  next_.assign(static_cast<std::size_t>(view.size()), -1);
  for (std::int32_t i = 0; i < view.size(); ++i) {
    const std::int32_t group = tables_.facts(begin + i).group;
    const double gain = view.row(i).activation * copies;
    std::int32_t& slot = slots_[group];
    if (slot < 0) {
      slot = static_cast<std::int32_t>(groups_.size());
      groups_.push_back({group, i, i, gain, tables_.groups()[group].never_recomputed});
      continue;
    }
    Group& of = groups_[slot];
    next_[of.last] = i;
    of.last = i;
    of.gain += gain;
  }
}

std::int32_t RecomputeRule::largest() const {
  std::int32_t best = -1;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].used) continue;
    if (best < 0 || groups_[i].gain > groups_[best].gain) best = static_cast<std::int32_t>(i);
  }
  return best;
}

void RecomputeRule::take(const StageView& view, const Group& group, std::int32_t copies, double excess,
                         std::vector<std::uint8_t>& recompute) const {
  double gained = 0;
  for (std::int32_t i = group.first; i >= 0; i = next_[i]) {
    gained += view.row(i).activation * copies;
    recompute[i] = 1;
    if (i + 1 < view.size()) recompute[i + 1] = 1;
    if (gained > excess) return;
  }
}

Saved RecomputeRule::derive(std::int32_t begin, std::span<const OperatorSplit> splits, std::int32_t copies,
                            double memory, double limit, std::vector<std::uint8_t>& recompute) {
  recompute.assign(splits.size(), 0);
  Saved saved;
  if (memory <= limit) return saved;
  const StageView view(tables_, begin, splits);
  gather(begin, view, copies);
  const double without = memory;
  while (memory > limit) {
    const std::int32_t best = largest();
    if (best < 0) break;
    groups_[best].used = true;
    const std::int32_t next = groups_[best].first + 1;
    if (next >= view.size()) break;
    groups_[slots_[view.facts(next).group]].used = true;
    take(view, groups_[best], copies, memory - limit, recompute);
    saved = view.saved(recompute);
    memory = without - saved.saved * copies + saved.peak;
  }
  for (const Group& group : groups_) slots_[group.group] = -1;
  return saved;
}

void derive_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute) {
  recompute.assign(splits.size(), 0);
  const StageParts none = stage_parts(tables, begin, splits, recompute, place);
  const double memory = none.memory + tables.headroom();
  if (memory <= tables.memory_limit()) return;
  (void)RecomputeRule(tables).derive(begin, splits, place.copies, memory, tables.memory_limit(), recompute);
}

}  // namespace trimtab::tuner::aceso
