#pragma once

// Where the time of one change of plan went. Of a live one as the rank that took longest tells it, of a restart as far
// as agents and ranks tell its stages apart. Where any is known their sum is the whole change.

#include "schema/api/trial.hpp"

namespace trimtab::coordinator {

// stop, copy, queue, start and first_step are of a restart, save, move and wait of a live change, the others of both.
// stop: until every rank has ended, which saves the job's checkpoint. copy: of the checkpoint, for a trial, until its
// processes are started. start: until every rank says hello, without what it tells of groups and build. first_step: it
// may compile. wait: what else a live change took, as waiting for other ranks and giving back memory.
struct ChangePhases : api::SwitchPhases {
  [[nodiscard]] bool known() const { return !named().empty(); }
  [[nodiscard]] double sum_ms() const;
  // Those above 0 in the order in which they come, by the names of the report.
  [[nodiscard]] std::vector<std::pair<const char*, double>> named() const;
  // For people: "stop 1.2 s, start 8 s"; empty where none is known.
  [[nodiscard]] std::string words() const;
};

}  // namespace trimtab::coordinator
