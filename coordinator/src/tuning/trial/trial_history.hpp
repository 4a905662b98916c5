#pragma once

// What a job keeps of its trials, so that its state stays small however long it is tuned. Pure.
//
// The latest trials are kept whole, and of the earlier ones those that something may still be asked of: the adopted
// ones whose plans the job runs or may go back to, the best measured one, and the latest that ran out of memory. Of the
// others the state keeps sums and hashes; the database has a row of each, without its plan.

#include <cstdint>
#include <string>
#include <vector>

namespace trimtab::coordinator {

struct Trial;
struct TuningState;

inline constexpr std::size_t kTrialsKept = 32;         // the latest
inline constexpr std::size_t kOutOfMemoryKept = 16;    // the latest of the earlier ones
inline constexpr std::size_t kObservationsKept = 128;  // besides those of the initial plan and the incumbent
inline constexpr std::size_t kPassedOverKept = 64;
inline constexpr std::size_t kConvergenceKept = 512;  // then every other point goes
inline constexpr std::size_t kFailedHashesKept = 4096;

// Of the trials that the state has no more.
struct ForgottenTrials {
  std::int32_t adopted = 0;
  std::int32_t rejected = 0;
  std::int32_t failed = 0;
  double overhead_ms = 0;
  std::vector<std::string> tried;  // hashes of those since the last drift

  [[nodiscard]] std::int32_t count() const { return adopted + rejected + failed; }
};

// What the database still knows of one.
struct EarlierTrial {
  std::int32_t id = 0;
  std::string state;
  std::string reason;
  std::string plan_hash;
  double predicted_ms = 0;
  double measured_ms = 0;  // 0 = not measured
};

// The trials that are forgotten, without their plans: for the database.
[[nodiscard]] std::vector<Trial> forget_old_trials(TuningState& state);

}  // namespace trimtab::coordinator
