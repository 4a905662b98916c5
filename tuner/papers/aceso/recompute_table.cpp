#include "papers/aceso/recompute_table.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::tuner::aceso {
namespace {

GroupSet bit_of(const Tables& tables, std::int32_t op) {
  if (op < 0 || static_cast<std::size_t>(tables.facts(op).group) >= kMaxGroups) return 0;
  return GroupSet{1} << tables.facts(op).group;
}

}  // namespace

RecomputePlaces::RecomputePlaces(const Tables& tables, Folding folding) : folding_(std::move(folding)) {
  for (std::int32_t at = 0; at < folding_.places(); ++at) {
    const std::int32_t op = folding_.operator_at(at);
    const OperatorFacts& of = tables.facts(op);
    const bool is_last = op + 1 == tables.operators();
    facts_.push_back({bit_of(tables, op - 1) | bit_of(tables, op),
                      is_last ? 0 : bit_of(tables, op) | bit_of(tables, op + 1), of.kind, of.name.activation_factor,
                      tables.keeps_output(op)});
  }
}

bool RecomputePlaces::serve(GroupSet taken) const {
  const auto& regions = folding_.regions();
  return std::all_of(regions.begin(), regions.end(), [&](const Folding::Region& region) {
    if (region.skipped == 0) return true;
    return std::any_of(facts_.begin() + region.middle(), facts_.begin() + region.tail(),
                       [&](const Facts& of) { return !of.saves(taken) || of.keeps_output; });
  });
}

RecomputeTable::RecomputeTable(const RecomputePlaces& places, const SettingTable& setting, GroupSet taken)
    : folding_(places.folding()), taken_(taken) {
  const auto count = static_cast<std::size_t>(folding_.places());
  sums_.reserve(count + 1);
  run_end_.reserve(count);
  periods_.resize(folding_.regions().size());
  std::vector<double> runs(count, 0);
  auto region = folding_.regions().begin();
  Sums sums;
  double run = 0;
  // Of each run the last operator says for all of it where it ends.
  const auto close = [this](std::size_t end) {
    while (run_end_.size() < end) run_end_.push_back(static_cast<std::int32_t>(end) - 1);
  };
  for (std::size_t at = 0; at < count; ++at) {
    const RecomputePlaces::Facts& of = places.facts()[at];
    const Row& row = setting.rows[of.kind];
    while ((region + 1)->base <= static_cast<std::int32_t>(at)) ++region;
    sums_.push_back(sums);
    if (of.recomputed(taken)) sums.time += row.forward;
    if (of.saves(taken)) {
      const double mib = row.activation * of.activation_factor;
      runs[at] = run += mib;
      sums.back += mib;
      if (!of.keeps_output) sums.saved += mib;
      if (of.keeps_output) {
        close(at + 1);
        run = 0;
      }
    } else {
      close(at);
      run_end_.push_back(-1);
      run = 0;
    }
    if (region->skipped > 0 && static_cast<std::int32_t>(at) + 1 == region->tail()) {
      add_skipped(*region, sums, periods_[static_cast<std::size_t>(region - folding_.regions().begin())]);
    }
  }
  sums_.push_back(sums);
  close(count);
  run_ = RangeMax(runs);
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
