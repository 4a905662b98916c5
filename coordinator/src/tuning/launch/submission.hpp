#pragma once

// A launch in a scheduler's hands, where the job names the command `submit`: what becomes of it, as its launcher says.
// The states' names are those of docs/protocols.md, "Submitted launches". Plain values.

#include <optional>
#include <string_view>

namespace trimtab::coordinator {

enum class SubmissionState {
  kQueued,        // waits for its turn
  kStarted,       // the scheduler has given it its nodes
  kCompleted,     // its command ended well
  kFailed,        // … did not
  kOutOfMemory,   // the scheduler ended it for that
  kPreempted,     // it made room for another
  kWalltime,      // its time was over, or so nearly that it was asked to end
  kNodeFailed,    // one of its nodes was lost
  kRequeued,      // somebody put it back into the queue
  kCancelled,     // somebody, not Trimtab, cancelled it
  kNotStarted,    // a trial's launch waited for longer than it may
  kNotSubmitted,  // the scheduler did not take it
  kLost,          // nobody knows: its launcher or the scheduler's memory of it is gone
};

[[nodiscard]] std::string_view to_string(SubmissionState state);
[[nodiscard]] std::optional<SubmissionState> submission_state_named(std::string_view name);

// The scheduler interrupted the launch for what passes by itself: however often it comes, it is no reason to give the
// job up.
[[nodiscard]] bool passes(SubmissionState state);

}  // namespace trimtab::coordinator
