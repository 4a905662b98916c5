#include "tuning/search/memory_boundary.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace trimtab::coordinator {
namespace {

// Predicted bytes at which the peak would be what the limit leaves for scatter.
double boundary(double limit, const MemoryNeed& too_big, const std::optional<MemoryNeed>& ran, double scatter) {
  const double wanted = limit * (1 - scatter);
  const auto predicted = static_cast<double>(too_big.predicted);
  if (!ran || ran->peak <= 0 || ran->peak >= too_big.peak) return wanted * predicted / too_big.peak;
  const auto below = static_cast<double>(ran->predicted);
  return below + (wanted - ran->peak) / (too_big.peak - ran->peak) * (predicted - below);
}

}  // namespace

Bytes allowed_memory(Bytes limit, const MemoryNeed& too_big, const std::optional<MemoryNeed>& ran, double scatter) {
  TRIMTAB_ASSERT(too_big.predicted > 1 && (!ran || ran->predicted < too_big.predicted), "a boundary has two sides");
  const Bytes less = limit == 0 ? too_big.predicted - 1 : std::min(limit, too_big.predicted - 1);
  if (limit == 0 || too_big.peak <= static_cast<double>(too_big.predicted)) return less;
  const auto allowed = static_cast<Bytes>(boundary(static_cast<double>(limit), too_big, ran, scatter));
  return std::clamp(allowed, ran ? std::min(ran->predicted, less) : Bytes{0}, less);
}

}  // namespace trimtab::coordinator
