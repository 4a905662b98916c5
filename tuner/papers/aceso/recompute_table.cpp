#include "papers/aceso/recompute_table.hpp"

namespace trimtab::tuner::aceso {
namespace {

constexpr std::int32_t kLongestPeriod = 64;
constexpr std::int32_t kExplicit = 4;  // periods with places of their own, at least: 0, 1, 2 and the last

// Whether the operators are alike and recomputed alike: by name, or each by itself.
bool alike(const Tables& tables, std::int32_t a, std::int32_t b) {
  const OperatorFacts& one = tables.facts(a);
  const OperatorFacts& two = tables.facts(b);
  if (one.kind != two.kind || !(one.name == two.name)) return false;
  const auto alone = [&](const OperatorFacts& of) { return tables.groups()[of.group].members.size() == 1; };
  return one.group == two.group || (alone(one) && alone(two));
}

// How many operators from `begin` on repeat with this period, the first time included.
std::int32_t repeated(const Tables& tables, std::int32_t begin, std::int32_t period) {
  std::int32_t op = begin;
  while (op + period < tables.operators() && alike(tables, op, op + period)) ++op;
  return op - begin >= period ? op - begin + period : 0;
}

GroupSet bit_of(const Tables& tables, std::int32_t op) {
  if (op < 0 || static_cast<std::size_t>(tables.facts(op).group) >= kMaxGroups) return 0;
  return GroupSet{1} << tables.facts(op).group;
}

}  // namespace

Repetition find_repetition(const Tables& tables) {
  Repetition found;
  for (std::int32_t begin = 0; begin < tables.operators();) {
    std::int32_t best = 1;
    std::int32_t period = 1;
    for (std::int32_t p = 1; p <= kLongestPeriod; ++p) {
      const std::int32_t length = repeated(tables, begin, p);
      if (length > best) {
        best = length;
        period = p;
      }
    }
    for (std::int32_t i = 0; i < best; ++i) {
      found.canonical.push_back(begin + i % period);
      found.region_end.push_back(begin + best);
      found.period.push_back(period);
    }
    begin += best;
  }
  return found;
}

Folding::Folding(const Tables& tables, const Repetition& repetition, bool folded) {
  const auto operators = static_cast<std::int32_t>(repetition.region_end.size());
  for (std::int32_t begin = 0; begin < operators; begin = repetition.region_end[begin]) {
    add_region(tables, begin, repetition.region_end[begin], repetition.period[begin], folded);
  }
  places_.push_back({count(), 0, static_cast<std::int32_t>(regions_.size())});
  regions_.push_back({count(), 1, 0});
}

void Folding::add_region(const Tables& tables, std::int32_t begin, std::int32_t end, std::int32_t period, bool folded) {
  const Region region{count(), period, folded ? std::max(0, (end - begin) / period - kExplicit) : 0};
  const auto index = static_cast<std::int32_t>(regions_.size());
  for (std::int32_t op = begin; op < end; ++op) {
    const std::int32_t number = (op - begin) / period;
    const std::int32_t skipped = region.skipped > 0 ? std::clamp(number - 1, 0, region.skipped) : 0;
    const std::int32_t at = region.base + op - begin - skipped * period;
    if (at == count()) {
      const bool is_last = op + 1 == tables.operators();
      const OperatorFacts& of = tables.facts(op);
      facts_.push_back({bit_of(tables, op - 1) | bit_of(tables, op),
                        is_last ? 0 : bit_of(tables, op) | bit_of(tables, op + 1), of.kind, of.name.activation_factor,
                        tables.keeps_output(op)});
    }
    places_.push_back({at, skipped, index});
  }
  regions_.push_back(region);
}

Folding::Range Folding::places_of(std::int32_t begin, std::int32_t end) const {
  const Place& from = places_[begin];
  const Place& to = places_[end - 1];
  const Region& first = regions_[from.region];
  const Region& last = regions_[to.region];
  const bool same = from.region == to.region;
  const std::int32_t left_out = (same ? to.skipped : first.skipped) - from.skipped;  // periods between, in `first`
  const std::int32_t entered = to.skipped - (same ? from.skipped : 0);               // and in `last`
  const bool in_middle = to.at < last.tail();
  if (same && entered == 1 && in_middle) return {from.at, to.at + last.period + 1};
  Range range{left_out == 0 ? from.at : std::min(from.at, first.middle()), to.at + 1};
  if (entered == 1 && in_middle) range.end = to.at + last.period + 1;
  if (entered > 1 && in_middle) range.end = last.tail();
  return range;
}

bool Folding::serves(GroupSet taken) const {
  return std::all_of(regions_.begin(), regions_.end(), [&](const Region& region) {
    return region.skipped == 0 || std::any_of(facts_.begin() + region.middle(), facts_.begin() + region.tail(),
                                              [&](const Facts& of) { return !of.saves(taken) || of.keeps_output; });
  });
}

RecomputeTable::RecomputeTable(const Folding& folding, const SettingTable& setting, GroupSet taken)
    : folding_(folding), taken_(taken) {
  const std::size_t count = folding_.facts().size();
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
    const Folding::Facts& of = folding_.facts()[at];
    const Row& row = setting.rows[of.kind];
    while ((region + 1)->base <= static_cast<std::int32_t>(at)) ++region;
    sums_.push_back(sums);
    if (of.recomputed(taken)) sums.time += row.forward;
    const bool saves = of.saves(taken);
    if (saves) {
      const double mib = row.activation * of.activation_factor;
      runs[at] = run += mib;
      sums.back += mib;
      if (!of.keeps_output) sums.saved += mib;
    } else {
      close(at);
      run_end_.push_back(-1);
    }
    if (saves && of.keeps_output) close(at + 1);
    if (!saves || of.keeps_output) run = 0;
    if (region->skipped == 0 || static_cast<std::int32_t>(at) + 1 != region->tail()) continue;
    // The sums before the tail count the whole middle, of which one period has been added up.
    const Sums& from = sums_[region->middle()];
    const Sums each{sums.time - from.time, sums.saved - from.saved, sums.back - from.back};
    periods_[region - folding_.regions().begin()] = each;
    sums.time += region->skipped * each.time;
    sums.saved += region->skipped * each.saved;
    sums.back += region->skipped * each.back;
  }
  sums_.push_back(sums);
  close(count);
  run_ = RangeMax(runs);
}

}  // namespace trimtab::tuner::aceso
