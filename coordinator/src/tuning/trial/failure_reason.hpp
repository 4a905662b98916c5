#pragma once

// Why a trial ended without its plan being adopted, or a plan failed: one of the machine's own words, or the words of a
// job, whose ranks may give any. The words are those of the API, the state database and the report. Plain values.

#include <string>
#include <string_view>

namespace trimtab::coordinator {

enum class FailureReason {
  kNone,
  // Of the plan.
  kOutOfMemory,
  kMemory,  // the change to it did not fit
  kRefused,
  kCrash,
  kHang,  // no later job is told of it; earlier releases told them
  kLoss,
  kResized,
  kStopped,
  kJobEnded,
  // Of its race.
  kSlower,
  kGainTooSmall,
  kGainNotSure,
  kOverhead,
  // Nobody's fault.
  kCoordinatorRestarted,
  kAgentLost,
  kFrozen,
  kKillSwitch,
  kAgreementTimeout,
  kSnapshot,
  kSuperseded,
  kUnexpectedPlan,
  kCorruptMeasurement,
  kNoMeasurement,
  kClock,
  kIncumbentFailed,
  kWithdrawn,
  kNotResumed,  // the job does not go on from its checkpoint
  // A scheduler's, by which a launch was interrupted (submission.hpp).
  kPreempted,
  kWalltime,
  kNodeFailed,
  kRequeued,
  kCancelled,
  kNotStarted,
  kNotSubmitted,
  kLost,
  kOther,  // the job's own words
};

class Reason {
 public:
  Reason(FailureReason reason = FailureReason::kNone) : reason_(reason) {}
  [[nodiscard]] static Reason parsed(std::string_view text);

  [[nodiscard]] FailureReason kind() const { return reason_; }
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool operator==(FailureReason reason) const { return reason_ == reason; }

 private:
  FailureReason reason_;
  std::string other_;
};

// A trial that ended for it says nothing about its plan, which may be tried once more.
[[nodiscard]] bool is_blameless(FailureReason reason);

}  // namespace trimtab::coordinator
