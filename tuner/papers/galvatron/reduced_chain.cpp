#include "papers/galvatron/reduced_chain.hpp"

#include <algorithm>
#include <limits>

namespace trimtab::tuner::galvatron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

ReducedChain::ReducedChain(const ChainProblem& problem) : problem_(problem) {
  for (std::int32_t s = 0; s < problem.strategies; ++s) {
    if (usable(s) && !beaten(s)) kept_.push_back(s);
  }
}

bool ReducedChain::usable(std::int32_t s) const {
  return std::any_of(problem_.costs.begin(), problem_.costs.end(), [s](const std::vector<ChainCost>& of) {
    return of[static_cast<std::size_t>(s)].time < kInfinite;
  });
}

// The most that changes to and from `by` cost beyond those to and from `s`, of whatever kinds the layers are.
double ReducedChain::detour(std::int32_t s, std::int32_t by) const {
  double in = 0;
  double out = 0;
  for (std::int32_t kind = 0; kind < static_cast<std::int32_t>(problem_.costs.size()); ++kind) {
    if (!changes(kind)) continue;
    for (std::int32_t p = 0; p < problem_.strategies; ++p) {
      if (p == s) continue;
      in = std::max(in, raw(kind, p, by) - raw(kind, p, s));
      out = std::max(out, raw(kind, by, p) - raw(kind, s, p));
    }
  }
  return in + out;
}

bool ReducedChain::beats(std::int32_t by, std::int32_t s) const {
  const double detours = detour(s, by);
  bool equal = true;
  for (const std::vector<ChainCost>& of : problem_.costs) {
    const ChainCost& a = of[static_cast<std::size_t>(by)];
    const ChainCost& b = of[static_cast<std::size_t>(s)];
    const bool no_more = a.kept <= b.kept && a.states <= b.states && a.peak <= b.peak;
    if (!no_more || !(a.time + detours <= b.time)) return false;
    equal = equal && a.time == b.time && a.kept == b.kept && a.states == b.states && a.peak == b.peak;
  }
  return !equal || by < s;
}

bool ReducedChain::beaten(std::int32_t s) const {
  for (std::int32_t by = 0; by < problem_.strategies; ++by) {
    if (by != s && usable(by) && beats(by, s)) return true;
  }
  return false;
}

}  // namespace trimtab::tuner::galvatron
