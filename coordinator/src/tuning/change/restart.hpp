#pragma once

// One change of plan by a new launch, and how long its stages take. Pure.

#include <cstdint>
#include <optional>
#include <set>

#include "tuning/change/switch_phases.hpp"
#include "tuning/event.hpp"
#include "tuning/trial/interleaving.hpp"

namespace trimtab::coordinator {

struct Restart {
  PlanText plan;
  bool of_block = false;  // a trial's launch; else the job's own
  Nanoseconds began{0};
  std::optional<Interleaving> interleaving = {};
  // When it came to that; 0 = it has not yet, or nobody tells.
  Nanoseconds ended{0};      // every rank of the launch before
  Nanoseconds started{0};    // every process
  Nanoseconds queued{0};     // the launch, in a scheduler's queue
  Nanoseconds connected{0};  // every rank
  std::set<std::int32_t> connected_ranks = {};
  SwitchPhases told = {};  // groups and build, of the ranks that took longest

  void connect(std::int32_t rank, const RankConnected& rank_connected, std::int32_t world_size, Nanoseconds now);
  // Until now, when the launch has come to its first step. What nobody told of is part of the stage after it.
  [[nodiscard]] SwitchPhases phases(Nanoseconds now) const;
};

}  // namespace trimtab::coordinator
