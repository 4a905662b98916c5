#pragma once

// A stage whose microbatches run in two sub-batches (Oases, section IV): one computes while the tensor-parallel ranks
// of the other communicate. An operator's measured time contains its all-reduces; they are taken out of it by what the
// tables say of such an all-reduce, and overlap the other sub-batch with the slowdowns measured for that. Both
// sub-batches' activations are kept between the passes; one of them works at a time, and what a block's recompute
// brings back lives until its backward has ended. One per thread; keeps its buffers.

#include "native/stage/overlapped_pass.hpp"
#include "native/stage/stage_cost.hpp"
#include "solvers/sub_batch_schedule.hpp"

namespace trimtab::tuner {

// What recomputation that starts after a communication keeps besides outputs: what follows each all-reduce but the last
// of an operator that has several.
void keep_inner_outputs(StageInputs& inputs);

class SubBatchStage {
 public:
  // `half` is the same stage at half of the microbatch. Data-parallel collectives run beside rounds as they run beside
  // operators elsewhere, and wait while tensor-parallel ones are on the same link.
  [[nodiscard]] StageTimes times(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                 const RecomputeFlags& recompute, const SubBatchSchedule& schedule,
                                 const OverlapScale& view = {});

  // What works at once, and at most comes back of an operator's block, for a choice of what to recompute: with
  // recompute_after_communication nothing that fits by it needs more. Else a unit's blocks come back together, and
  // bytes() may say more.
  void set_memory(const StageInputs& half, StageInputs& whole);
  // REQUIRES: set_memory(half, whole).
  [[nodiscard]] StageBytes bytes(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                                 const RecomputeFlags& recompute, const SubBatchSchedule& schedule);

 private:
  // The operators of a block: those that begin in it and those that end in it.
  struct Span {
    std::size_t begin = 0, end = 0;       // begin here
    std::size_t ended = 0, ended_to = 0;  // end here
  };
  void make_blocks(const Calibration& calibration, const StageInputs& whole, const StageInputs& half,
                   const RecomputeFlags& recompute);
  // What a block is, for what runs beside it.
  struct Beside {
    MixedWork computing;
    double computing_ms = 0;  // that the shares are of
    SumWork sums;             // of its communication
  };
  void add_work(const OperatorPrice& price, double ms);
  void settle_work();
  // What the computing of a block and the communication of one, null = none, slow each other down by.
  [[nodiscard]] OverlapSlowdown slowdown_of(std::int32_t computing, const CommunicationSlowdowns* sums,
                                            const OverlapScale& overlap) const;
  // Milliseconds of the rounds by block, as rounds_time() counts them.
  void share(const OverlapScale& overlap);
  // The block's rounds beside what the pass sends.
  void run_block(std::size_t b, OverlappedPass& pass) const;
  void send_gradients(const StageInputs& whole, std::size_t b, double moving, bool last, OverlappedPass& pass) const;

  std::vector<Block> blocks_;
  std::vector<Span> spans_;
  RecomputeFlags everything_;
  std::vector<Beside> beside_;         // by block
  std::vector<double> recomputed_;     // bytes by block, of one sub-batch
  std::vector<std::uint8_t> on_link_;  // by block: its communication is on the link that replicas use
  std::vector<double> sent_;           // ms of such communication, by block
  std::vector<Round> rounds_;
  std::vector<double> shares_;
};

}  // namespace trimtab::tuner
