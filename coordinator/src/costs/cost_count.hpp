#pragma once

// How many keys of costs the merged database has, for /metrics. A server counts all of them, which takes too long for
// each time that somebody looks: it is done once a minute at most. Event loop's thread only.

#include <cstdint>
#include <optional>

#include "base/clock.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::coordinator {

class CostCount {
 public:
  static constexpr Nanoseconds kPeriod = std::chrono::minutes(1);

  // Both must outlive it.
  CostCount(const CostDatabase& costs, const Clock& clock) : costs_(costs), clock_(clock) {}

  // Of the last minute; nothing where the database cannot be asked.
  [[nodiscard]] std::optional<std::uint64_t> lately() const {
    const Nanoseconds now = clock_.monotonic();
    if (count_ && now - counted_ < kPeriod) return count_;
    const auto count = costs_.key_count();
    count_ = count.ok() ? std::optional(*count) : std::nullopt;
    counted_ = now;
    return count_;
  }

 private:
  const CostDatabase& costs_;
  const Clock& clock_;
  mutable std::optional<std::uint64_t> count_;
  mutable Nanoseconds counted_{0};
};

}  // namespace trimtab::coordinator
