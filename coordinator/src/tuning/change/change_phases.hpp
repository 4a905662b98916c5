#pragma once

// Where the time of one change of plan went. Of a live one as the rank that took longest tells it, of a restart as far
// as agents and ranks tell its stages apart. Where any is known their sum is the whole change.

#include <string>
#include <utility>
#include <vector>

namespace trimtab::coordinator {

struct ChangePhases {
  // Of a live change.
  double save_ms = 0;  // the snapshot before it
  double move_ms = 0;  // state between ranks
  // Of both.
  double groups_ms = 0;  // communicators
  double build_ms = 0;   // modules, compilation, graphs
  // Of both, what the steps until warm-up ended took longer than those after it.
  double warm_up_ms = 0;
  double wait_ms = 0;  // of a live change, what else it took: waiting for other ranks, giving back memory
  // Of a restart.
  double stop_ms = 0;        // from the order to end until every rank has ended; the job saves its checkpoint in it
  double copy_ms = 0;        // a trial's copy of the checkpoint, until its processes are started
  double queue_ms = 0;       // until a scheduler has started the launch
  double start_ms = 0;       // until every rank says hello, without what it tells of groups and build
  double first_step_ms = 0;  // from there to the end of the first step, which may compile

  [[nodiscard]] bool known() const { return !named().empty(); }
  [[nodiscard]] double sum_ms() const;
  // Those above 0 in the order in which they come, by the names of the report.
  [[nodiscard]] std::vector<std::pair<const char*, double>> named() const;
  // For people: "stop 1.2 s, start 8 s"; empty where none is known.
  [[nodiscard]] std::string words() const;
};

}  // namespace trimtab::coordinator
