#include "native/costs/tensor_estimate.hpp"

#include "base/check.hpp"

namespace trimtab::tuner {
namespace {

// Of one rank's computing, what each of so many does.
double share(double undivided, std::int32_t ranks) {
  return undivided + (1 - undivided) / ranks;
}

}  // namespace

Value shared_computing(const Value& computing, std::int32_t from, std::int32_t to, double undivided) {
  TRIMTAB_ASSERT(from >= 1 && from <= to, "computing is shared among more ranks, not among fewer");
  if (computing.quality == Quality::kMissing || from == to) return computing;
  const auto at = [&](double u) { return share(u, to) / share(u, from); };
  const double factor = at(undivided);
  const double doubt = at(2 * undivided) - factor;
  return {computing.mean * factor, computing.error * factor + computing.mean * doubt, Quality::kEstimated};
}

Value with_all_reduces(const Value& computing, std::optional<std::int32_t> reduces, const Value& reduce) {
  if (reduces == 0) return computing;
  if (computing.quality == Quality::kMissing || reduce.quality == Quality::kMissing) return {};
  const double count = reduces.value_or(1);
  const double doubt = reduces ? 0 : reduce.mean / 2;
  return {computing.mean + count * reduce.mean, computing.error + count * reduce.error + doubt, Quality::kEstimated};
}

}  // namespace trimtab::tuner
