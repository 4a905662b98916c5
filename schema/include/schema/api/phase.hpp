#pragma once

// Where a job stands, and where a trial does: the one list of their names in documents and databases.

#include <optional>
#include <span>
#include <string_view>

#include "schema/api/words.hpp"

namespace trimtab {

enum class Phase {
  kWaiting,     // for enough devices
  kDescribing,  // the job prints its model
  kProfiling,   // costs that no database has are measured
  kSearching,   // the first search, with what is known
  kLaunching,   // ranks start with the initial plan
  kMeasuring,   // the initial plan's steps
  kTrials,      // search, trial, calibrate, again
  kComparing,   // initial and adopted plan in turn, once more
  kTraining,    // tuning is over, the job goes on
  kStopping,    // the job was asked to end
  kUntuned,     // a run apart with the initial plan, for its losses
  kFinished,
  kFailed,
  kStopped,
};

// What a phase that steers ranks is busy with.
enum class Doing {
  kNothing,
  kSearching,
  kAwaitingApproval,
  kChangingPlan,
  kMeasuring,
  kRollingBack,
  kKilling,
  kLaunching,
  kWaitingForNodes,
  kProbing,  // what a drift has changed
  kHalted,   // the ranks crashed too often: nothing is launched until somebody says so
};

enum class TrialState { kProposed, kStaged, kWarming, kMeasuring, kMeasured, kFailed, kAdopted, kRejected };

// The words of an enumeration, in its order.
[[nodiscard]] std::span<const std::string_view> words_of(Phase phase);
[[nodiscard]] std::span<const std::string_view> words_of(Doing doing);
[[nodiscard]] std::span<const std::string_view> words_of(TrialState state);

// Nothing where no value has this name.
[[nodiscard]] std::optional<Phase> phase_named(std::string_view name);
[[nodiscard]] std::optional<Doing> doing_named(std::string_view name);
[[nodiscard]] std::optional<TrialState> trial_state_named(std::string_view name);

// Nothing more will happen in these.
[[nodiscard]] bool has_ended(TrialState state);
[[nodiscard]] bool is_final(Phase phase);
// Ranks of the tuned job are meant to run in these.
[[nodiscard]] bool steers_ranks(Phase phase);

}  // namespace trimtab
