#include "tuning/change/restart.hpp"

#include <algorithm>
#include <utility>

namespace trimtab::coordinator {

void Restart::connect(std::int32_t rank, const RankConnected& rank_connected, std::int32_t world_size,
                      Nanoseconds now) {
  told.groups_ms = std::max(told.groups_ms, rank_connected.groups_ms);
  told.build_ms = std::max(told.build_ms, rank_connected.build_ms);
  connected_ranks.insert(rank);
  const bool all = std::cmp_equal(connected_ranks.size(), world_size);
  if (all && connected.count() == 0) connected = now;
}

SwitchPhases Restart::phases(Nanoseconds now) const {
  SwitchPhases phases = told;
  Nanoseconds last = began;
  const auto until = [&last](Nanoseconds moment) {
    if (moment <= last) return 0.0;
    return milliseconds(moment - std::exchange(last, moment));
  };
  phases.stop_ms = until(ended);
  phases.copy_ms = until(started);
  phases.queue_ms = until(queued);
  const double told_ms = phases.groups_ms + phases.build_ms;
  const double start_ms = until(connected);
  phases.first_step_ms = until(now);
  // Clocks of others: no more of the stage than it took.
  if (told_ms > start_ms) phases.groups_ms = phases.build_ms = 0;
  phases.start_ms = start_ms - phases.groups_ms - phases.build_ms;
  return phases;
}

}  // namespace trimtab::coordinator
