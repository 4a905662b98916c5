#pragma once

// Which operators of a stage to recompute so that it fits its memory at the least recompute time. Pure.

#include "native/stage/stage_cost.hpp"

namespace trimtab::tuner {

// The ways to recompute inside of one unit: neighbouring operators of a stage of which runs of recomputed ones may be
// recomputed at once (RecomputeUnit in schema/model.hpp). What a run keeps and what it brings back does not add up over
// its operators, so ways are found by a program over the unit: labels (time, bytes kept, brought back by the run that
// is open, peak), operator by operator, without those that another label beats in all of them. Pure.
struct RecomputePattern {
  double time = 0;                  // ms of one microbatch
  double freed = 0;                 // bytes of one microbatch, more than without recompute
  double peak = 0;                  // bytes that its largest run brings back
  std::vector<std::uint8_t> again;  // by operator of the unit
};

struct RecomputePatterns {
  std::vector<RecomputePattern>
      patterns;          // none beats another; time ascending, the one that recomputes nothing left out
  bool complete = true;  // no way that none of these beats was left out
};

// Of the operators at places [begin, end) of the stage: one unit.
[[nodiscard]] RecomputePatterns recompute_patterns(const StageInputs& inputs, std::size_t begin, std::size_t end);

// Patterns of units that were asked for before. Prices are told apart by where they stand: they must outlive this, and
// so must the catalog that they are of. One owner; not thread-safe.
class KnownPatterns {
 public:
  // Valid until the next forget_many().
  const RecomputePatterns& of(const StageInputs& inputs, std::size_t begin, std::size_t end);
  // Where there are too many.
  void forget_many();

 private:
  using Unit = std::pair<std::vector<const OperatorPrice*>, double>;
  std::map<Unit, std::unique_ptr<RecomputePatterns>> known_;
};

struct RecomputeChoice {
  bool fits = true;
  double excess_bytes = 0;       // over the limit; the least possible when it does not fit
  std::vector<Range> recompute;  // normalized
  double least_ms = 0;           // no choice that fits recomputes for less
};

// Minimum recompute time under `limit_bytes` (0 = unlimited): branch and bound over classes of equal units and the ways
// to recompute inside of one (RecomputePattern), exact unless it visits over 20,000 nodes or a unit has more ways
// than are looked at, then the best found; the first found is the greedy one by time per byte freed. `further`
// operators beyond that are recomputed too, cheapest by time per byte first. `allowed` false = none at all. `flags`:
// one for each of the model's operators; those of the stage are set to the choice. `known` keeps what units of these
// prices can do.
[[nodiscard]] RecomputeChoice choose_recompute(const Calibration& calibration, const StageInputs& inputs,
                                               double limit_bytes, bool allowed, std::int32_t further,
                                               RecomputeFlags& flags, KnownPatterns* known = nullptr);

}  // namespace trimtab::tuner
