#pragma once

// The daemon's own metrics in Prometheus' text format. Event loop's thread only.

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::coordinator {

class JobTable;
struct Services;

[[nodiscard]] std::string metrics_text(const Services& services, const JobTable& jobs);

// How many keys of costs the merged database has. A server counts all of them, which takes too long for each time that
// somebody looks: it is done once a minute at most.
class CostCount {
 public:
  static constexpr Nanoseconds kPeriod = std::chrono::minutes(1);

  // Both must outlive it.
  CostCount(const CostDatabase& costs, const Clock& clock) : costs_(costs), clock_(clock) {}

  // Of the last minute; nothing where the database cannot be asked.
  [[nodiscard]] std::optional<std::uint64_t> lately() const;

 private:
  const CostDatabase& costs_;
  const Clock& clock_;
  mutable std::optional<std::uint64_t> count_;
  mutable Nanoseconds counted_{0};
};

}  // namespace trimtab::coordinator
