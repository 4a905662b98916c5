#pragma once

// The ways to recompute inside of one unit: neighbouring operators of a stage of which runs of recomputed ones may be
// recomputed at once (RecomputeUnit in schema/model.hpp). What a run keeps and what it brings back does not add up over
// its operators, so ways are found by a program over the unit: labels (time, bytes kept, brought back by the run that
// is open, peak), operator by operator, without those that another label beats in all of them. Pure.

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "native/stage/stage_cost.hpp"

namespace trimtab::tuner {

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

}  // namespace trimtab::tuner
