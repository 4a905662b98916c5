#include "doctor/looks.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace trimtab::cli {

namespace {

// Processor time is counted in hundredths of a second.
constexpr Nanoseconds kBetweenLooks = std::chrono::seconds(5);

}  // namespace

std::vector<Check> look_again(std::vector<FirstLook> looks, const Clock& clock, const Pause& pause) {
  const bool more = std::ranges::any_of(looks, [](const FirstLook& look) { return static_cast<bool>(look.again); });
  if (more) pause(kBetweenLooks);
  std::vector<Check> checks;
  for (FirstLook& look : looks) {
    std::ranges::move(look.checks, std::back_inserter(checks));
    if (!look.again) continue;
    const Nanoseconds ago = clock.monotonic() - look.at;
    std::ranges::move(look.again({std::move(look.page), ago}), std::back_inserter(checks));
  }
  return checks;
}

}  // namespace trimtab::cli
