#pragma once

// A stage whose microbatches run in two sub-batches (Oases, section IV): one computes while the tensor-parallel ranks
// of the other communicate. An operator's measured time contains its all-reduces; they are taken out of it by what the
// tables say of such an all-reduce, and overlap the other sub-batch with the slowdowns measured for that. Memory is
// that of the whole microbatch, as the paper counts it. One per thread; keeps its buffers.

#include <cstdint>
#include <span>
#include <vector>

#include "stage_cost.hpp"
#include "sub_batch_schedule.hpp"

namespace trimtab::tuner {

// What recomputation that starts after a communication keeps besides outputs: what follows each all-reduce but the last
// of an operator that has several.
void keep_inner_outputs(StageInputs& inputs);

class SubBatchStage {
 public:
  // `half` is the same stage at half of the microbatch. Data-parallel collectives run beside rounds as they run beside
  // operators elsewhere: what they share with tensor-parallel ones on the wire is in the slowdowns alone.
  [[nodiscard]] StageTimes times(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                 const RecomputeFlags& recompute, const SubBatchSchedule& schedule);

 private:
  // The operators of a block: those that begin in it and those that end in it.
  struct Span {
    std::size_t begin = 0, end = 0;       // begin here
    std::size_t ended = 0, ended_to = 0;  // end here
  };
  void make_blocks(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                   const RecomputeFlags& recompute);
  // Milliseconds of the rounds by block, as rounds_time() counts them.
  void share(const OverlapSlowdown& slowdown);

  std::vector<Block> blocks_;
  std::vector<Span> spans_;
  std::vector<Round> rounds_;
  std::vector<double> shares_;
};

}  // namespace trimtab::tuner
