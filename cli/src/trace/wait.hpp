#pragma once

// How long whoever fetches a trace waits for it: as long as it was to be, then as long as something still comes.

#include <algorithm>

#include "base/clock.hpp"

namespace trimtab::cli {

class TraceWait {
 public:
  static constexpr Nanoseconds kPatience = std::chrono::seconds(30);

  TraceWait(Nanoseconds length, Nanoseconds now) : last_(now + length) {}

  void came(Nanoseconds now) { last_ = std::max(last_, now); }
  // Nothing has come for too long: a node is silent.
  [[nodiscard]] bool over(Nanoseconds now) const { return now > last_ + kPatience; }

 private:
  Nanoseconds last_;
};

}  // namespace trimtab::cli
