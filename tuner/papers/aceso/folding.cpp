#include "papers/aceso/folding.hpp"

#include <algorithm>

namespace trimtab::tuner::aceso {
namespace {

constexpr std::int32_t kExplicit = 4;  // periods with places of their own, at least: 0, 1, 2 and the last

}  // namespace

Folding::Folding(const Repetition& repetition, bool folded) {
  const auto operators = static_cast<std::int32_t>(repetition.region_end.size());
  for (std::int32_t begin = 0; begin < operators;) {
    const std::int32_t end = repetition.region_end[begin];
    add_region(begin, end, repetition.period[begin], folded);
    begin = end;
  }
  places_.push_back({places(), 0, static_cast<std::int32_t>(regions_.size())});
  regions_.push_back({places(), 1, 0});
}

void Folding::add_region(std::int32_t begin, std::int32_t end, std::int32_t period, bool folded) {
  const Region region{places(), period, folded ? std::max(0, (end - begin) / period - kExplicit) : 0};
  const auto index = static_cast<std::int32_t>(regions_.size());
  for (std::int32_t op = begin; op < end; ++op) {
    const std::int32_t number = (op - begin) / period;
    std::int32_t skipped = 0;
    if (region.skipped > 0) skipped = std::clamp(number - 1, 0, region.skipped);
    const std::int32_t at = region.base + op - begin - skipped * period;
    if (at == places()) operators_.push_back(op);
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

}  // namespace trimtab::tuner::aceso
