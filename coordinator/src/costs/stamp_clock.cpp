#include "costs/stamp_clock.hpp"

namespace trimtab::coordinator {
namespace {

// Hosts' clocks and bounds beyond these say nothing; less than that never overflows.
constexpr std::int64_t kFarthestHost = std::int64_t{1} << 58;
constexpr std::uint64_t kWidestBound = std::uint64_t{1} << 55;

bool sane(const ClockDifference::Offset& host) {
  return host.ns < kFarthestHost && host.ns > -kFarthestHost && host.uncertainty_ns < kWidestBound;
}

}  // namespace

std::optional<StampClock> usable_clock(std::optional<StampClock> clock, std::uint64_t begin_ns) {
  if (!clock) return clock;
  if (begin_ns - static_cast<std::uint64_t>(clock->gpu.ns) >= kLatestStamp) return std::nullopt;
  if (clock->gpu.uncertainty_ns >= kWidestBound) return std::nullopt;
  if (clock->host && !sane(*clock->host)) clock->host.reset();
  return clock;
}

std::optional<Between> between(const std::optional<StampClock>& first, const std::optional<StampClock>& second) {
  if (!first || !second) return std::nullopt;
  Between clocks;
  clocks.ahead = first->gpu.ns - second->gpu.ns;
  clocks.unsure = static_cast<std::int64_t>(first->gpu.uncertainty_ns + second->gpu.uncertainty_ns);
  if (first->node == second->node) return clocks;
  if (!first->host || !second->host) return std::nullopt;
  clocks.ahead += first->host->ns - second->host->ns;
  clocks.unsure += static_cast<std::int64_t>(first->host->uncertainty_ns + second->host->uncertainty_ns);
  return clocks;
}

}  // namespace trimtab::coordinator
