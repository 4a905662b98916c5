#pragma once

// Where the time of one live change of plan went, as the rank that took longest tells it. Its sum may be less than the
// whole change: the rest is agreement and what has no phase.

namespace trimtab::coordinator {

struct SwitchPhases {
  double save_ms = 0;    // the snapshot before the change
  double move_ms = 0;    // state between ranks
  double groups_ms = 0;  // communicators
  double build_ms = 0;   // modules, compilation, graphs
  [[nodiscard]] bool known() const { return save_ms + move_ms + groups_ms + build_ms > 0; }
};

}  // namespace trimtab::coordinator
