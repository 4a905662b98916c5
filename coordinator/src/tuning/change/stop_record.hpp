#pragma once

// What is known of how a job that is restarted saves and goes on: the persisted part of Checkpoints. A plain value.

#include <cstdint>
#include <string>

namespace trimtab::coordinator {

struct StopRecord {
  bool saves_at_stop = false;      // it was stopped within a checkpoint's interval and went on at the next step
  std::int64_t stops = 0;          // that trials have made
  std::int64_t stopped_step = -1;  // the last before the stop that is not judged yet; -1 = none
  std::int64_t saved_step = -1;    // the last before its checkpoint was written; -1 = it saves when it is asked to end
  std::string refused;             // why the job is not stopped any more
  // Of a trial's copy of its checkpoint, as it was at the last save, on the node where it takes longest.
  double copy_ms = 0;        // 0 = not known
  std::string copy_words;    // "3.1GiB in 12 files takes about 4 s"; empty = not known
  std::string copy_refused;  // why no trial may copy it; empty = one may
};

}  // namespace trimtab::coordinator
