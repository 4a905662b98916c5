#include "papers/aceso/recompute_rule.hpp"

#include <algorithm>
#include <numeric>

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
    groups_[slots_[tables_.facts(begin + next).group]].used = true;
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

namespace {

constexpr int kBisections = 24;

struct Costs {
  std::vector<double> time;   // us to recompute an operator
  std::vector<double> freed;  // MiB of one microbatch where it and its successor are recomputed
};

Costs costs_of(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits) {
  Costs costs;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const std::int32_t op = begin + static_cast<std::int32_t>(i);
    const Row& row = tables.row(splits[i].setting, op);
    const bool frees = i + 1 < splits.size() && !tables.keeps_output(op);
    costs.time.push_back(row.forward);
    costs.freed.push_back(frees ? row.activation * tables.facts(op).name.activation_factor : 0);
  }
  return costs;
}

// The flags of least time - price * freed: operator by operator, with the choice for the one before as state.
void cheapest(const Costs& costs, double price, std::vector<std::uint8_t>& flags) {
  const std::size_t count = costs.time.size();
  std::vector<std::uint8_t> from_kept(count, 0);        // best choice of i - 1 where i is kept
  std::vector<std::uint8_t> from_recomputed(count, 0);  // and where it is recomputed
  double kept = 0;
  double recomputed = costs.time[0];
  for (std::size_t i = 1; i < count; ++i) {
    const double stay = recomputed - price * costs.freed[i - 1];
    from_kept[i] = recomputed < kept ? 1 : 0;
    from_recomputed[i] = stay < kept ? 1 : 0;
    const double next_kept = std::min(kept, recomputed);
    recomputed = std::min(kept, stay) + costs.time[i];
    kept = next_kept;
  }
  std::uint8_t flag = recomputed < kept ? 1 : 0;
  for (std::size_t i = count; i-- > 0;) {
    flags[i] = flag;
    flag = flag != 0 ? from_recomputed[i] : from_kept[i];
  }
}

class Choice {
 public:
  Choice(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits, const Place& place)
      : tables_(tables), begin_(begin), splits_(splits), place_(place), costs_(costs_of(tables, begin, splits)) {}

  void choose(std::vector<std::uint8_t>& flags) {
    flags.assign(splits_.size(), 0);
    if (fits(flags)) return;
    double low = 0;
    double high = 1;
    for (int i = 0; i < 40 && !fits_at(high, flags); ++i) high *= 4;
    if (!fits(flags)) return;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      (fits_at(middle, flags) ? high : low) = middle;
    }
    fits_at(high, flags);
    keep_again(flags);
  }

 private:
  [[nodiscard]] bool fits(const std::vector<std::uint8_t>& flags) const {
    return stage_parts(tables_, begin_, splits_, flags, place_).memory <= tables_.memory_limit();
  }
  bool fits_at(double price, std::vector<std::uint8_t>& flags) const {
    cheapest(costs_, price, flags);
    return fits(flags);
  }

  // Shortens runs from their ends, the longest times first, where the stage fits without.
  void keep_again(std::vector<std::uint8_t>& flags) const {
    std::vector<std::size_t> order(flags.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return costs_.time[a] > costs_.time[b]; });
    for (const std::size_t i : order) {
      if (flags[i] == 0) continue;
      flags[i] = 0;
      if (!fits(flags)) flags[i] = 1;
    }
  }

  const Tables& tables_;
  std::int32_t begin_;
  std::span<const OperatorSplit> splits_;
  Place place_;
  Costs costs_;
};

}  // namespace

void choose_recompute(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                      const Place& place, std::vector<std::uint8_t>& recompute) {
  Choice(tables, begin, splits, place).choose(recompute);
}

void recompute_further(const Tables& tables, std::int32_t begin, std::span<const OperatorSplit> splits,
                       std::int32_t count, std::vector<std::uint8_t>& recompute) {
  if (count <= 0) return;
  const Costs costs = costs_of(tables, begin, splits);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < recompute.size(); ++i) {
    if (recompute[i] == 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return costs.freed[a] * costs.time[b] > costs.freed[b] * costs.time[a];
  });
  for (std::size_t i = 0; i < order.size() && static_cast<std::int32_t>(i) < count; ++i) recompute[order[i]] = 1;
}

}  // namespace trimtab::tuner::aceso
