#pragma once

// What tuning has gained on the machine as it was meanwhile, and what is told of that: in the report, in answers of the
// API and in the last words of tuning, whatever ended it. Pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schema/api/trial.hpp"
#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

struct TuningState;
struct Trial;
class Interleaving;
class Reason;

// What whole pairs of blocks of the latest trial have measured so far becomes what is told of it, however it ends.
// `ratio`: of its race.
void keep_measured(const Interleaving& blocks, const Ratio& ratio, const PairNoise& noise, Trial& trial);
// It failed for a reason that leaves its times in doubt: nothing is told of them.
void forget_if_doubtful(const Reason& reason, Trial& trial);

struct ToldGain {
  Ratio ratio;
  api::GainBy by = api::GainBy::kComparison;
  std::vector<std::int32_t> trials;          // their ratios are multiplied; none: the comparison at the end
  std::optional<std::int64_t> until_step{};  // when the machine changed that it is of
  [[nodiscard]] bool is_kept() const { return by != api::GainBy::kTrialNotKept; }
};
// Of the latest tuning: what is kept beside what it began from, by their comparison. Where there was none: each plan
// was compared in turn with the one before it, and what one comparison does not know is independent of the others; but
// a plan that was adopted by luck counts with its luck. Where no plan is kept, what was gained before the machine
// changed, else the best that a trial has measured and that is above 1. Nothing where nothing was measured.
[[nodiscard]] std::optional<ToldGain> told_gain(const TuningState& state);
// "1.63x as fast (95 %: 1.12 to 2.37), as trial 1 measured it in turn". REQUIRES: not by a comparison.
[[nodiscard]] std::string words(const ToldGain& gain);
[[nodiscard]] std::string words(const Ratio& ratio);

// Whether the job was tuned again since it was tuned first.
[[nodiscard]] bool was_tuned_again(const TuningState& state);
// What is kept since tuning last began; nothing where no plan was adopted since.
[[nodiscard]] std::optional<ToldGain> gained(const TuningState& state);

}  // namespace trimtab::coordinator
