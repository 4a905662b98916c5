#include "recompute_table.hpp"

namespace trimtab::tuner::aceso {

RecomputeTable::RecomputeTable(const Tables& tables, const SettingTable& setting, GroupSet taken) : taken_(taken) {
  const std::int32_t count = tables.operators();
  const auto is_taken = [&](std::int32_t op) {
    return op >= 0 && op < count && ((taken >> tables.facts(op).group) & 1U) != 0;
  };
  const auto recomputed = [&](std::int32_t op) { return op < count && (is_taken(op) || is_taken(op - 1)); };
  std::vector<double> runs(static_cast<std::size_t>(count), 0);
  run_end_.assign(static_cast<std::size_t>(count), -1);
  sums_.assign(static_cast<std::size_t>(count) + 1, {});
  double run = 0;
  std::int32_t run_begin = -1;
  const auto close = [&](std::int32_t last) {
    for (std::int32_t i = run_begin; run_begin >= 0 && i <= last; ++i) run_end_[i] = last;
    run_begin = -1;
    run = 0;
  };
  for (std::int32_t op = 0; op < count; ++op) {
    const Row& row = setting.rows[tables.facts(op).kind];
    Sums next = sums_[op];
    if (recomputed(op)) next.time += row.forward;
    if (recomputed(op) && recomputed(op + 1)) {
      const double mib = row.activation * tables.facts(op).name.activation_factor;
      const bool kept = tables.keeps_output(op);
      if (run_begin < 0) run_begin = op;
      run += mib;
      runs[op] = run;
      next.back += mib;
      if (!kept) next.saved += mib;
      if (kept) close(op);
    } else {
      close(op - 1);
    }
    sums_[op + 1] = next;
  }
  close(count - 1);
  run_ = RangeMax(std::move(runs));
}

}  // namespace trimtab::tuner::aceso
