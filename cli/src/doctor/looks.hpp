#pragma once

// Daemons are looked at twice, some seconds apart: what they take, and what still fails, shows between two looks. All
// of them share one pause.

#include <functional>
#include <optional>
#include <vector>

#include "base/clock.hpp"
#include "doctor/checks.hpp"
#include "doctor/daemons.hpp"

namespace trimtab::cli {

// What the first look at a daemon gives: what can be said at once, and how to look again where there is more to see.
struct FirstLook {
  using Page = std::vector<MetricSample>;
  std::vector<Check> checks = {};
  Page page = {};
  Nanoseconds at{0};  // on the monotonic clock
  // With the earlier page; empty = that was all.
  std::function<std::vector<Check>(const EarlierPage& earlier)> again = {};
};

using Pause = std::function<void(Nanoseconds)>;
// What both looks say, in this order of daemons. Pauses once where a daemon is to be looked at again, else not at all.
[[nodiscard]] std::vector<Check> look_again(std::vector<FirstLook> looks, const Clock& clock, const Pause& pause);

}  // namespace trimtab::cli
