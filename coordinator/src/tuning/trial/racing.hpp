#pragma once

// Whether a plan under trial is faster than the incumbent, decided as early as can be answered for. Pure.
//
// The two plans run in neighbouring blocks of steps, A B B A A B …: what drifts slowly meets both, and a linear drift
// cancels. A pair of neighbouring blocks gives one difference of trimmed mean logarithms. What such a difference
// scatters by is learnt over the whole job: from pairs of blocks of the initial plan alone and from every earlier trial
// (PairNoise), together with the pairs at hand; never less than what the steps inside of the blocks say. There is
// a look after each of the first four pairs and then after half as many again each time, and each look is allowed an
// equal part of the error rate (Bonferroni): whatever depends on what, a plan that is no faster is called faster with
// at most kErrorRate, as long as blocks scatter as they have. What disturbs a whole block (a backup, a neighbour) does
// not: so one pair never makes a plan the faster one, and the next ones, which differ from it, widen the interval.
// Group-sequential boundaries (Pocock 1977) would be narrower and hold only for independent increments.

#include "tuning/trial/comparison.hpp"

namespace trimtab::coordinator {

// One-sided, for a whole trial.
inline constexpr double kErrorRate = 0.025;
// For an adoption: one block may have met a disturbance from end to end.
inline constexpr int kLeastPairs = 2;

enum class RaceState {
  kOpen,      // the next pair may tell
  kFaster,    // surely faster, and surely by more than the change costs
  kSlower,    // surely not faster by what the job asks for
  kHopeless,  // hardly so: more pairs would be waste
  kUnsure,    // every look is used up
};

struct RaceRules {
  int pairs = 6;  // at most
  double minimum_gain = 0.01;
  double switch_ms = 0;
  long remaining_steps = 0;
};

struct Race {
  RaceState state = RaceState::kOpen;
  Ratio ratio;  // low and high hold over all looks together
};

// The looks of a race of at most so many pairs: after 1, 2, 3, 4, 6, 9, 14, … and the last.
[[nodiscard]] int looks_of(int pairs);

// After a pair is complete; kOpen where no look is due. REQUIRES: at least one step in each of the first blocks; a pair
// counts when both sides have steps.
[[nodiscard]] Race look(const Blocks& first, const Blocks& second, const PairNoise& noise, const RaceRules& rules);

// Steps after which a change that costs `switch_ms` has paid, at the lower bound of the gain; 0 = never.
[[nodiscard]] long break_even_steps(const Ratio& ratio, double incumbent_ms, double switch_ms);

// The part of Student's t below `t`. REQUIRES: t >= 0, degrees > 0.
[[nodiscard]] double student_share(double t, double degrees);
// The quantile of Student's t, 0.5 <= share < 1, any positive degrees of freedom; within 1e-6 of its size.
[[nodiscard]] double student_quantile(double share, double degrees);

}  // namespace trimtab::coordinator
