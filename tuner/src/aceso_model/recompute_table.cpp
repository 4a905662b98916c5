#include "recompute_table.hpp"

#include <algorithm>

namespace trimtab::tuner::aceso {
namespace {

struct Recomputed {
  const Tables& tables;
  GroupSet taken;

  [[nodiscard]] bool is_taken(std::int32_t op) const {
    return op >= 0 && ((taken >> tables.facts(op).group) & 1U) != 0;
  }
  [[nodiscard]] bool operator()(std::int32_t op) const {
    return op < tables.operators() && (is_taken(op) || is_taken(op - 1));
  }
  [[nodiscard]] bool saves(std::int32_t op) const { return (*this)(op) && (*this)(op + 1); }
};

bool ends_a_run(const Folding& folding, const Folding::Region& region, const Recomputed& recomputed) {
  for (std::int32_t at = region.middle(); at < region.tail(); ++at) {
    const std::int32_t op = folding.operator_at(at);
    if (!recomputed.saves(op) || recomputed.tables.keeps_output(op)) return true;
  }
  return false;
}

}  // namespace

bool serves(const Folding& folding, const Tables& tables, GroupSet taken) {
  const auto& regions = folding.regions();
  return std::all_of(regions.begin(), regions.end(), [&](const Folding::Region& region) {
    return region.skipped == 0 || ends_a_run(folding, region, {tables, taken});
  });
}

RecomputeTable::RecomputeTable(const Tables& tables, const Folding& folding, const SettingTable& setting,
                               GroupSet taken)
    : folding_(folding), taken_(taken) {
  const std::int32_t count = folding.places();
  const Recomputed recomputed{tables, taken};
  std::vector<double> runs(static_cast<std::size_t>(count), 0);
  run_end_.assign(static_cast<std::size_t>(count), -1);
  sums_.assign(static_cast<std::size_t>(count) + 1, {});
  periods_.assign(folding.regions().size(), {});
  double run = 0;
  std::int32_t run_begin = -1;
  const auto close = [&](std::int32_t last) {
    for (std::int32_t i = run_begin; run_begin >= 0 && i <= last; ++i) run_end_[i] = last;
    run_begin = -1;
    run = 0;
  };
  for (std::int32_t at = 0; at < count; ++at) {
    const std::int32_t op = folding.operator_at(at);
    const Row& row = setting.rows[tables.facts(op).kind];
    Sums next = sums_[at];
    if (recomputed(op)) next.time += row.forward;
    if (recomputed.saves(op)) {
      const double mib = row.activation * tables.facts(op).name.activation_factor;
      const bool kept = tables.keeps_output(op);
      if (run_begin < 0) run_begin = at;
      run += mib;
      runs[at] = run;
      next.back += mib;
      if (!kept) next.saved += mib;
      if (kept) close(at);
    } else {
      close(at - 1);
    }
    sums_[at + 1] = next;
    const std::int32_t index = folding.place(op).region;
    const Folding::Region& region = folding.regions()[index];
    if (region.skipped > 0 && at + 1 == region.tail()) add_skipped(region, sums_[at + 1], periods_[index]);
  }
  close(count - 1);
  run_ = RangeMax(std::move(runs));
}

// The sums before the tail count the whole middle, of which one period has been added up.
void RecomputeTable::add_skipped(const Folding::Region& region, Sums& sums, Sums& each) const {
  const Sums& from = sums_[region.middle()];
  each = {sums.time - from.time, sums.saved - from.saved, sums.back - from.back};
  sums.time += region.skipped * each.time;
  sums.saved += region.skipped * each.saved;
  sums.back += region.skipped * each.back;
}

}  // namespace trimtab::tuner::aceso
