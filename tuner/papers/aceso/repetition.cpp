#include "papers/aceso/repetition.hpp"

namespace trimtab::tuner::aceso {
namespace {

constexpr std::int32_t kLongestPeriod = 64;

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
  while (op + period < tables.operators() && alike(tables, op, op + period)) {
    ++op;
  }
  return op - begin >= period ? op - begin + period : 0;
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

}  // namespace trimtab::tuner::aceso
