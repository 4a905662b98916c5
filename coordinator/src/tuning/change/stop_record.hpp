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
};

}  // namespace trimtab::coordinator
